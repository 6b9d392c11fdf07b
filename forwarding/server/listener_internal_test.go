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

// What a client has sent before its connection was accepted may have been dropped with the newcomers' packets: it has time
// to send it again, however short the silence is after which others leave.
func TestLateConnectionsStay(t *testing.T) {
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newListener(ln.(*net.TCPListener), New(Config{Logger: slog.New(slog.DiscardHandler)}))
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
		if by, leaves := in.(*serverConn).idleDeadline(); !leaves || by.Sub(began) < least {
			t.Errorf("a late connection leaves (%v) after %v, want %v", leaves, by.Sub(began), least)
		}
	}
	f(time.Millisecond, synRetransmit)
	f(2*synRetransmit, 2*synRetransmit)
}

// Moments are counted from a start, so that a step of the clock makes nobody look silent, or not.
func TestMomentsAreNotOfTheClock(t *testing.T) {
	inHand, err := NewInflight(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Inflight: inHand, Logger: slog.New(slog.DiscardHandler), Handle: func(*fasthttp.RequestCtx) { inHand.Begin().Close() }})
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
		// By the reading of the clock alone, the deadline would be another one.
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
