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
	d := newDoor(ln.(*net.TCPListener), NewServer(ServerConfig{Logger: slog.New(slog.DiscardHandler)}))
	defer d.Close()
	f := func(quiet, least time.Duration) {
		t.Helper()
		d.leave.Store(int64(quiet))
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
		if by, leaves := in.(*clientConn).leavesBy(); !leaves || by.Sub(began) < least {
			t.Errorf("a late connection leaves (%v) after %v, want %v", leaves, by.Sub(began), least)
		}
	}
	f(time.Millisecond, secondTry)
	f(2*secondTry, 2*secondTry)
}

// Moments are counted from a start, so that a step of the clock makes nobody look silent, or not.
func TestMomentsAreNotOfTheClock(t *testing.T) {
	inHand, err := NewInHand(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(ServerConfig{InHand: inHand, Logger: slog.New(slog.DiscardHandler), Handle: func(*fasthttp.RequestCtx) { inHand.Take().LetGo() }})
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
	clients := s.door.clients()
	if len(clients) != 1 {
		t.Errorf("%d connections, want 1", len(clients))
	}
	for _, in := range clients {
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
	c.Close()
	if err := errors.Join(s.End(t.Context(), Pace{}, nil), <-served); err != nil {
		t.Error(err)
	}
}
