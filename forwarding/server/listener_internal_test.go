package server

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// A client whose connection is accepted while the listener closes may have to send its request again, since the kernel may have dropped
// it: it has time for that, even if the idle limit is shorter.
func TestLateConnectionsStayOpen(t *testing.T) {
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newListener(ln.(*net.TCPListener), New(Config{Inflight: newInflight(t), Logger: slog.New(slog.DiscardHandler)}))
	defer d.Close()
	f := func(quiet, least time.Duration) {
		t.Helper()
		d.idleLimit.Store(int64(quiet))
		c, err := net.Dial("tcp", ln.Addr().String())
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
		if deadline, mayClose := in.(*serverConn).idleDeadline(); !mayClose || deadline.Sub(began) < least {
			t.Errorf("a late connection closes (%v) after %v, want %v", mayClose, deadline.Sub(began), least)
		}
	}
	f(time.Millisecond, synRetransmit)
	f(2*synRetransmit, 2*synRetransmit)
}

// Times are stored relative to a start, so that a step of the wall clock does not change how long a client was silent.
func TestTimesDoNotDependOnTheWallClock(t *testing.T) {
	inflight, err := NewInflight(slog.New(slog.DiscardHandler), DefaultBodyMemory)
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Inflight: inflight, Logger: slog.New(slog.DiscardHandler), Handle: func(*fasthttp.RequestCtx) { inflight.Begin().Close() }})
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	clients := s.listener.conns()
	if len(clients) != 1 {
		t.Errorf("%d connections, want 1", len(clients))
	}
	for _, in := range clients {
		for what, n := range map[string]int64{"waits": in.idleSince.Load(), "limit": in.readDeadline.Load(), "taken": s.inflight.lastBegin.Load()} {
			if time.Duration(n).Abs() > time.Hour {
				t.Errorf("%s is %v after the start", what, time.Duration(n))
			}
		}
		// The wall clock's reading alone would give another deadline.
		deadline := time.Now().Add(time.Minute)
		in.storeDeadline(deadline)
		if got := in.listener.timeOf(in.readDeadline.Load()); got.Sub(deadline) != 0 {
			t.Errorf("a deadline was kept as another, %v later", got.Sub(deadline))
		}
	}
	c.Close()
	if err := errors.Join(s.Shutdown(t.Context(), DrainTimings{}, nil), <-served); err != nil {
		t.Error(err)
	}
}
