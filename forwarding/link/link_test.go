package link_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"colonnade/forwarding/link"
	"colonnade/internal/testkit"
)

// patience bounds what must happen at all.
const patience = 2 * time.Minute

// pair is a client's and a server's end of one link. Accepted streams are served by a function, each by a goroutine.
type pair struct {
	client, server         *link.Link
	clientConn, serverConn *net.TCPConn
	clientEnd, serverEnd   chan error // what Run has returned
}

func newPair(t testing.TB, serve func(*link.Stream)) *pair {
	t.Helper()
	return newPairWith(t, func(config *link.Config) {}, serve)
}

func newPairWith(t testing.TB, change func(*link.Config), serve func(*link.Stream)) *pair {
	t.Helper()
	p := &pair{clientEnd: make(chan error, 1), serverEnd: make(chan error, 1)}
	p.clientConn, p.serverConn = testkit.TCPPair(t)
	client := link.Config{Conn: p.clientConn, TryWrite: tryWrite(p.clientConn)}
	var handlers sync.WaitGroup
	server := link.Config{Conn: p.serverConn, TryWrite: tryWrite(p.serverConn), Accept: func(s *link.Stream) {
		handlers.Go(func() {
			defer s.Close()
			serve(s)
		})
	}}
	change(&client)
	change(&server)
	p.client, p.server = link.New(client), link.New(server)
	go func() { p.clientEnd <- p.client.Run() }()
	go func() { p.serverEnd <- p.server.Run() }()
	t.Cleanup(func() {
		_ = p.client.Close()
		_ = p.server.Close()
		<-p.client.Done()
		<-p.server.Done()
		handlers.Wait()
	})
	return p
}

func tryWrite(c *net.TCPConn) func(p []byte) (int, error) {
	raw, _ := c.SyscallConn()
	return func(p []byte) (n int, err error) {
		failed := raw.Control(func(fd uintptr) {
			n, err = syscall.SendmsgN(int(fd), p, nil, nil, syscall.MSG_DONTWAIT)
		})
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
			n, err = 0, nil
		}
		return max(n, 0), errors.Join(failed, err)
	}
}

func echo(s *link.Stream) {
	_, _ = io.Copy(s, s)
	_ = s.CloseWrite()
}

// open opens a stream whose operations fail when they take too long.
func (p *pair) open(t testing.TB, first string, last bool) *link.Stream {
	t.Helper()
	s, err := p.client.Open([]byte(first), last)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(patience))
	return s
}

func read(t testing.TB, s *link.Stream) string {
	t.Helper()
	all, err := io.ReadAll(s)
	if err != nil {
		t.Fatalf("%v after %d bytes", err, len(all))
	}
	return string(all)
}

func TestExchange(t *testing.T) {
	p := newPair(t, echo)
	for range 3 {
		s := p.open(t, "hello", true)
		if got := read(t, s); got != "hello" {
			t.Errorf("got %q", got)
		}
		s.Finish()
	}
	if n := p.client.Streams(); n != 0 {
		t.Errorf("%d streams are open after the last", n)
	}
}

func TestLargeBodies(t *testing.T) {
	p := newPair(t, echo)
	var streams sync.WaitGroup
	for i := range 20 {
		streams.Go(func() {
			body := bytes.Repeat([]byte{byte(i), 'x', 'y'}, 700_000)
			s := p.open(t, "", false)
			defer s.Close()
			streams.Go(func() {
				if _, err := s.Write(body); err != nil {
					t.Error(err)
				}
				_ = s.CloseWrite()
			})
			got, err := io.ReadAll(s)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("stream %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	streams.Wait()
}
