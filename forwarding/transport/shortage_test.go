package transport_test

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"
	"colonnade/internal/testkit"
)

// A connection that fails because this process has no file descriptors left is not a refused connection.
func TestShortageIsOurs(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dial := func() error {
		answer, err := transport.New(slog.New(slog.DiscardHandler)).Do(t.Context(), &transport.Request{
			Target: transport.Target{Address: ln.Addr().String()}, Method: "GET", Path: "/", ConnectTimeout: time.Second, Deadline: time.Now().Add(time.Second),
		}, transport.ReadOptions{})
		if err == nil {
			answer.Close()
		}
		return err
	}
	restore := testkit.LimitFiles(t, 0)
	if err := dial(); !netconn.IsLocalShortage(err) {
		t.Errorf("without files: %v", err)
	}
	restore()
	ln.Close()
	if err := dial(); err == nil || netconn.IsLocalShortage(err) {
		t.Errorf("refused: %v", err)
	}
}
