package server

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"colonnade/internal/testkit"
)

// A connection that gets a request after it was found idle is not closed.
func TestBusyConnectionsAreNotSwapped(t *testing.T) {
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newListener(ln.(*net.TCPListener), New(Config{Inflight: newInflight(t), MaxConns: 2, Logger: slog.New(slog.DiscardHandler)}))
	defer l.Close()
	defer l.closeAll()
	for range 2 {
		_, conn := testkit.TCPPair(t)
		if !l.limiter.admit(conn) {
			t.Fatal("refused")
		}
		l.register(conn)
	}
	idle := l.idleForSwap(netip.MustParseAddr("192.0.2.1"), l.nanosNow())
	if len(idle) != 2 {
		t.Fatalf("%d are idle, want 2", len(idle))
	}
	busy := idle[0].serverConn
	busy.noteRequest()
	l.closeStillIdle(idle)
	if left := l.conns(); len(left) != 1 || left[0] != busy {
		t.Errorf("%d connections are left, want the one with a request", len(left))
	}
}
