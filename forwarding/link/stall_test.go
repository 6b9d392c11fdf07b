package link_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/link"
	"colonnade/internal/testkit"
)

// stalledLink returns a link whose connection takes nothing until far is read.
func stalledLink(t *testing.T, accept func(*link.Stream)) (l *link.Link, far net.Conn, ended <-chan error) {
	t.Helper()
	near, far := net.Pipe()
	l = link.New(link.Config{Conn: near, Accept: accept, TryWrite: func([]byte) (int, error) { return 0, nil }})
	end := make(chan error, 1)
	go func() { end <- l.Run() }()
	t.Cleanup(func() {
		_ = l.Close()
		<-l.Done()
		_ = far.Close()
	})
	return l, far, end
}

// fill opens streams until further ones wait for room. It returns the first, which has no credit left.
func fill(t *testing.T, l *link.Link) *link.Stream {
	t.Helper()
	var first *link.Stream
	for range 16 { // 1 MiB with the heads
		s, err := l.Open(make([]byte, 64<<10), false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if first == nil {
			first = s
		}
	}
	return first
}

func receive[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatalf("%s does not come", what)
	}
	return got
}

// A stream that waits for room is not open yet when its link breaks.
func TestBrokenLinkEndsStreamsThatWaitForRoom(t *testing.T) {
	l, _, _ := stalledLink(t, nil)
	fill(t, l)
	opened := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := l.Open([]byte("x"), true)
			opened <- err
		}()
	}
	time.Sleep(20 * time.Millisecond) // until they wait; without that, less is tested
	_ = l.Close()
	for range 2 {
		if err := receive(t, "the error of Open", opened); !errors.Is(err, link.ErrNotSent) {
			t.Errorf("a stream that waited for room: %v", err)
		}
	}
}

func TestStreamThatWasNotOpenedInTimeWasNotSent(t *testing.T) {
	l, _, _ := stalledLink(t, nil)
	fill(t, l)
	s := l.NewStream()
	_ = s.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if err := s.Open([]byte("x"), true); !errors.Is(err, link.ErrNotSent) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	_ = s.Close()
}

// The end of a stream needs no credit, but room.
func TestEndWithoutCreditGetsItsTurn(t *testing.T) {
	l, far, _ := stalledLink(t, nil)
	s := fill(t, l)
	closed := make(chan error, 1)
	go func() { closed <- s.CloseWrite() }()
	time.Sleep(20 * time.Millisecond) // until it waits; without that, less is tested
	go func() { _, _ = io.Copy(io.Discard, far) }()
	if err := receive(t, "the end of CloseWrite", closed); err != nil {
		t.Error(err)
	}
}

func TestAnswersThatAreNotReadAreBounded(t *testing.T) {
	_, far, ended := stalledLink(t, func(*link.Stream) {})
	pings := bytes.Repeat(rawFrame(kindPing, 0, 0, ""), 1<<10)
	for sent := 0; sent < 16<<20; sent += len(pings) {
		if _, err := far.Write(pings); err != nil {
			break
		}
	}
	if err := receive(t, "the end of the link", ended); err == nil || !strings.Contains(err.Error(), "violated") {
		t.Error(err)
	}
}

// A peer that has answered a request cannot say that it has not accepted it.
func TestAnsweredStreamWasSent(t *testing.T) {
	for _, refusal := range [][]byte{rawFrame(kindReset, flagRefused, 1, ""), rawFrame(kindGoAway, 0, 0, "")} {
		peer := newRawPeer(t)
		s := peer.open("x")
		peer.send(kindData, 0, 1, "some")
		if _, err := peer.conn.Write(refusal); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(s); string(got) != "some" || !errors.Is(err, link.ErrReset) || errors.Is(err, link.ErrNotSent) {
			t.Errorf("read %q, %v", got, err)
		}
	}
}

func TestClosedLinkWithoutStreamsHasNotBroken(t *testing.T) {
	p := newPair(t, echo)
	s := p.open(t, "x", true)
	_ = read(t, s)
	s.Finish()
	testkit.WaitFor(t, "the server to forget the stream", func() bool { return p.server.Streams() == 0 })
	_ = p.client.Close()
	if client, server := <-p.clientEnd, <-p.serverEnd; client != nil || server != nil {
		t.Errorf("ended with %v and %v", client, server)
	}
}
