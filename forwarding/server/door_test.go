//go:build pending

package server

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
)

// leaveFiles lets the process open so many more files and sockets, until the test's end or restore.
func leaveFiles(t *testing.T, n uint64) (restore func()) {
	t.Helper()
	lowest, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(lowest.Fd())
	lowest.Close()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	small := old
	small.Cur = next + n
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &small); err != nil {
		t.Skipf("the limit of open files cannot be lowered here: %v", err)
	}
	restore = func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }
	t.Cleanup(restore)
	return restore
}

// Whoever comes while there is no file for a further connection is let in later, and those that are there are served.
func TestAcceptOutlastsAShortageOfFiles(t *testing.T) {
	said := make(forwardtest.LogLines, 100)
	s := forwardtest.ServeConfig(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(said, nil))})
	there := forwardtest.MustDial(t, s)
	if _, err := there.Ask(); err != nil {
		t.Fatal(err)
	}
	restore := leaveFiles(t, 1) // for the client's end
	coming := forwardtest.MustDial(t, s)
	if line := forwardtest.Next(t, "the log", said); !strings.Contains(line, "too many open files") || !strings.Contains(line, "LimitNOFILE") {
		t.Errorf("logged %q", line)
	}
	time.Sleep(5 * firstWait) // it is tried again meanwhile
	if last, err := there.Ask(); last || err != nil {
		t.Errorf("during the shortage: last %v, %v", last, err)
	}
	restore()
	for _, c := range []*forwardtest.RawClient{coming, there, forwardtest.MustDial(t, s)} {
		if last, err := c.Ask(); last || err != nil {
			t.Errorf("after the shortage: last %v, %v", last, err)
		}
	}
	if len(said) > 0 {
		t.Errorf("and logged %q", <-said)
	}
	s.Shutdown(Pace{})
}

// A connection that cannot be made for want of files of our own is told from one that is refused.
func TestShortageIsOurs(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	try := func() error {
		answer, err := transport.NewTransport().Do(t.Context(), &transport.Request{
			Target: transport.Target{Address: ln.Addr().String()}, Method: "GET", Path: "/", Connect: time.Second, End: time.Now().Add(time.Second),
		}, transport.Shape{})
		if err == nil {
			answer.Close()
		}
		return err
	}
	restore := leaveFiles(t, 0)
	if err := try(); !netconn.IsOurs(err) {
		t.Errorf("without files: %v", err)
	}
	restore()
	ln.Close()
	if err := try(); err == nil || netconn.IsOurs(err) {
		t.Errorf("refused: %v", err)
	}
}

// A server can end while it is short of files.
func TestEndInAShortageOfFiles(t *testing.T) {
	said := make(forwardtest.LogLines, 100)
	s := forwardtest.ServeConfig(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(said, nil))})
	leaveFiles(t, 1)
	forwardtest.MustDial(t, s)
	forwardtest.Next(t, "the log", said)
	s.Shutdown(Pace{})
}

// Who had half of a handshake behind it when newcomers were turned away has time for the rest, though nobody else came.
func TestShutWaitsForHandshakes(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	p := Pace{Quiet: 200 * time.Millisecond}
	time.Sleep(p.Quiet)
	began := time.Now()
	s.Shut(p)
	if took := time.Since(began); took < p.Quiet {
		t.Errorf("the listener was closed after %v", took)
	}
	s.Shutdown(p)
}

// What a client has sent before its connection was accepted may have been dropped with the newcomers' packets: it has time
// to send it again, however short the silence is after which others leave.
func TestLateConnectionsStay(t *testing.T) {
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoor(ln.(*net.TCPListener), NewServer(ServerConfig{Logger: slog.New(slog.DiscardHandler)}))
	defer d.Close()
	f := func(quiet, least time.Duration) {
		t.Helper()
		d.leave.Store(int64(quiet))
		c, err := forwardtest.Dial(ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		began := time.Now()
		in, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if by, leaves := in.(*clientConn).leavesBy(); !leaves || by.Sub(began) < least {
			t.Errorf("a late connection leaves (%v) after %v, want %v", leaves, by.Sub(began), least)
		}
	}
	f(time.Millisecond, secondTry)
	f(2*secondTry, 2*secondTry)
}

// Moments are counted from a start, so that a step of the clock makes nobody look silent, or not.
func TestMomentsAreNotOfTheClock(t *testing.T) {
	s := forwardtest.Serve(t, nil)
	c := forwardtest.MustDial(t, s)
	if _, err := c.Ask(); err != nil {
		t.Fatal(err)
	}
	for _, in := range s.door.clients() {
		for what, n := range map[string]int64{"waits": in.waits.Load(), "limit": in.limit.Load(), "taken": s.inHand.taken.Load()} {
			if time.Duration(n).Abs() > time.Hour {
				t.Errorf("%s is %v after the start", what, time.Duration(n))
			}
		}
		// By the reading of the clock alone, the deadline would be another one.
		deadline := time.Now().Add(time.Minute)
		in.keep(deadline)
		if got := in.door.at(in.limit.Load()); got.Sub(deadline) != 0 {
			t.Errorf("a deadline was kept as another, %v later", got.Sub(deadline))
		}
	}
	s.Shutdown(Pace{})
}
