package oracle_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"colonnade/internal/oracle"
)

// Beside other tests, only the test's own resources count.
func TestSharedProcess(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	forever := func(n int) {
		for range n {
			go func() { <-stop }()
		}
	}
	others, own := listen(t), listen(t)
	dir := logged(t, nil)
	done := make(chan struct{})
	oracle.LabelGoroutines(t)
	o := oracle.New(t, oracle.Config{Shared: true, NoEvents: true, Addresses: []string{own.Addr().String()}, EventDirs: []string{dir}})
	go func() { // labelled as another test's
		defer close(done)
		oracle.LabelGoroutines(other{t})
		forever(20)
	}()
	<-done
	connect(t, others, 20)
	wantProblem(t, o, "")
	forever(20)
	if got := strings.Join(o.Problems(t), "\n"); !strings.Contains(got, "goroutines: 2") || strings.Contains(got, "descriptors") ||
		!strings.Contains(got, "TestSharedProcess") {
		t.Errorf("goroutines of its own: %s", got)
	}
	connect(t, own, 3) // both ends
	if got := strings.Join(o.Problems(t), "\n"); !strings.Contains(got, "file descriptors: 7, before 1") {
		t.Errorf("connections of its own: %s", got)
	}
	for range 4 {
		f, err := os.Open(filepath.Join(dir, "events"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if got := strings.Join(o.Problems(t), "\n"); !strings.Contains(got, "file descriptors: 11, before 1") {
		t.Errorf("files of its own: %s", got)
	}
}

// other has the name of another test.
type other struct{ testing.TB }

func (other) Name() string { return "another" }

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// connect opens n connections.
func connect(t *testing.T, ln net.Listener, n int) {
	t.Helper()
	for range n {
		for _, open := range []func() (net.Conn, error){func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }, ln.Accept} {
			c, err := open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
		}
	}
}
