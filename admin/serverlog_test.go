package admin_test

import (
	"context"
	"log"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	"colonnade/admin"
	"colonnade/internal/testkit"
)

// While the process has no files left, the log gets one line in the form of all others, and package log gets none.
func TestLogWhileFilesAreShort(t *testing.T) {
	var logged, other testkit.SyncBuffer
	log.SetOutput(&other)
	defer log.SetOutput(os.Stderr)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- admin.Serve(ctx, listener, admin.Handler(admin.Config{}), slog.New(slog.NewTextHandler(&logged, nil)))
	}()
	restore := testkit.LimitFiles(t, 3)
	var conns []net.Conn
	for range 3 {
		if c, err := net.Dial("tcp", listener.Addr().String()); err == nil {
			conns = append(conns, c)
		}
	}
	testkit.WaitFor(t, "a line", func() bool { return logged.String() != "" })
	restore()
	for _, c := range conns {
		c.Close()
	}
	testkit.WaitFor(t, "the pages", func() bool {
		status, _ := testkit.Get("http://" + listener.Addr().String() + "/health/live")
		return status == 200
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], `level=ERROR msg="cannot accept admin connections;`) || !strings.Contains(lines[0], "too many open files") {
		t.Errorf("logged: %q", lines)
	}
	if other.String() != "" {
		t.Errorf("package log got %q", other.String())
	}
}
