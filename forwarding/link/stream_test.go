package link_test

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/forwarding/link"
	"colonnade/internal/testkit"
)

func TestSlowReaderDelaysNoOtherStream(t *testing.T) {
	p := newPair(t, func(s *link.Stream) {
		if first := make([]byte, 4); readFull(s, first) && string(first) == "much" {
			_, _ = s.Write(make([]byte, 4<<20))
			return
		}
		_, _ = io.WriteString(s, "answer")
	})
	slow := p.open(t, "much", true)
	for range 20 {
		s := p.open(t, "some", true)
		if got := read(t, s); got != "answer" {
			t.Fatalf("got %q beside a stream that is not read", got)
		}
		s.Finish()
	}
	if got := len(read(t, slow)); got != 4<<20 {
		t.Errorf("the slow reader got %d bytes", got)
	}
}

func readFull(s *link.Stream, p []byte) bool {
	_, err := io.ReadFull(s, p)
	return err == nil
}

// TestStalledReaderHoldsOneWindow also shows that nothing grows for a reader that stalls.
func TestStalledReaderHoldsOneWindow(t *testing.T) {
	sent := make(chan int, 1)
	p := newPair(t, func(s *link.Stream) {
		_ = s.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := s.Write(make([]byte, 1<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write to a reader that stalls: %v", err)
		}
		sent <- n
	})
	s := p.open(t, "x", true)
	defer s.Close()
	if n := <-sent; n != 64<<10 {
		t.Errorf("a reader that stalls took %d bytes, want 64 KiB", n)
	}
}

// Peek leaves what it returns, and waits for it up to the deadline. WriteLast sends bytes and the end together.
func TestPeekAndWriteLast(t *testing.T) {
	p := newPair(t, func(s *link.Stream) {
		switch first, arrived, err := s.Peek(); {
		case first == 's':
			return
		case err != nil || first != 'a' || arrived != len("ab"):
			t.Errorf("the first byte of %d is %q, %v", arrived, first, err)
		}
		rest, err := io.ReadAll(s)
		if err != nil || string(rest) != "ab" {
			t.Errorf("behind Peek, %q was left, %v", rest, err)
		}
		if _, _, err := s.Peek(); !errors.Is(err, io.EOF) {
			t.Errorf("Peek at the end: %v", err)
		}
		if err := s.WriteLast([]byte("answer")); err != nil {
			t.Error(err)
		}
		if _, err := s.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write behind the last one: %v", err)
		}
	})
	s := p.open(t, "ab", true)
	if got := read(t, s); got != "answer" {
		t.Errorf("got %q", got)
	}
	late := p.open(t, "s", false)
	_ = late.SetReadDeadline(time.Now().Add(-time.Second))
	if _, _, err := late.Peek(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Peek behind its deadline: %v", err)
	}
}

func TestReset(t *testing.T) {
	reset, read := make(chan error, 1), make(chan error, 1)
	p := newPair(t, func(s *link.Stream) {
		s.OnReset(func(err error) { reset <- err })
		_, err := io.ReadAll(s)
		read <- err
		if _, err := s.Write([]byte("x")); !errors.Is(err, link.ErrReset) {
			t.Errorf("a write to a stream that was reset: %v", err)
		}
	})
	_ = p.open(t, "x", false).Close()
	for what, got := range map[string]chan error{"OnReset": reset, "a read": read} {
		if err := <-got; !errors.Is(err, link.ErrReset) {
			t.Errorf("%s: %v", what, err)
		}
	}
	testkit.WaitFor(t, "the server to forget the stream", func() bool { return p.server.Streams() == 0 })
}

func TestAbortComesBehindWhatWasWritten(t *testing.T) {
	p := newPair(t, func(s *link.Stream) {
		_, _ = io.WriteString(s, "half")
		s.Abort()
	})
	s := p.open(t, "x", true)
	defer s.Close()
	if got, err := io.ReadAll(s); string(got) != "half" || !errors.Is(err, link.ErrReset) {
		t.Errorf("read %q and %v, want the bytes and a reset", got, err)
	}
}

func TestCloseSendsTheEnd(t *testing.T) {
	for _, answer := range []string{"", "answer"} {
		p := newPair(t, func(s *link.Stream) { _, _ = io.WriteString(s, answer) })
		s := p.open(t, "x", true)
		if got := read(t, s); got != answer {
			t.Errorf("read %q, want %q", got, answer)
		}
		_ = s.Close()
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
		if _, err := s.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write after Close: %v", err)
		}
	}
}

func TestEndIsReadBehindABrokenLink(t *testing.T) {
	p := newPair(t, func(s *link.Stream) {
		_, _ = io.WriteString(s, "whole")
		_ = s.CloseWrite()
	})
	s := p.open(t, "x", true)
	defer s.Close()
	first := make([]byte, 1)
	if !readFull(s, first) {
		t.Fatal("no byte")
	}
	testkit.WaitFor(t, "the server to end the stream", func() bool { return p.server.Streams() == 0 })
	other := p.open(t, "y", true) // answered behind the first one's end
	_ = read(t, other)
	_ = other.Close()
	_ = p.serverConn.Close()
	<-p.client.Done()
	if got := read(t, s); got != "hole" {
		t.Errorf("read %q", got)
	}
}

func TestDeadlines(t *testing.T) {
	p := newPair(t, func(s *link.Stream) { _, _ = io.ReadAll(s) })
	s := p.open(t, "x", false)
	defer s.Close()
	f := func(what string, do func() error) {
		t.Helper()
		if err := do(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	get := func() error { _, err := s.Read(make([]byte, 1)); return err }
	_ = s.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	f("a read whose deadline passes", get)
	f("a read after its deadline", get)
	_ = s.SetReadDeadline(time.Now().Add(patience))
	time.AfterFunc(20*time.Millisecond, func() { _ = s.SetReadDeadline(time.Unix(1, 0)) })
	f("a read whose deadline is moved to the past", get)
	_ = s.SetDeadline(time.Now().Add(patience))
	time.AfterFunc(20*time.Millisecond, func() { _ = s.SetDeadline(time.Now().Add(20 * time.Millisecond)) })
	f("a read whose deadline is moved to a time", get)
	f("an attempt after the deadline", func() error { _, err := s.TryWrite([]byte("x")); return err })
	f("a write after its deadline", func() error { _, err := s.Write([]byte("x")); return err })
}

func TestOnArrival(t *testing.T) {
	step := make(chan struct{})
	p := newPair(t, func(s *link.Stream) {
		for range step {
			_, _ = io.WriteString(s, "piece ")
		}
	})
	s := p.open(t, "x", true)
	defer s.Close()
	if _, err := s.TryRead(make([]byte, 1)); !errors.Is(err, link.ErrWouldBlock) {
		t.Errorf("before anything has arrived: %v", err)
	}
	pieces := make(chan string, 1)
	s.OnArrival(func() {
		buf := make([]byte, 100)
		n, err := s.TryRead(buf)
		if err != nil {
			pieces <- err.Error()
		} else {
			pieces <- string(buf[:n])
		}
	})
	var got []string
	for range 3 {
		step <- struct{}{}
		got = append(got, <-pieces)
	}
	close(step)
	got = append(got, <-pieces)
	if want := []string{"piece ", "piece ", "piece ", "EOF"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFlusher(t *testing.T) {
	var flusher link.Flusher
	written := make(chan *link.Stream)
	p := newPairWith(t, func(c *link.Config) { c.Flusher = &flusher }, func(s *link.Stream) {
		if n, err := s.TryWrite([]byte("later")); n != 5 || err != nil {
			t.Error(n, err)
		}
		written <- s
		<-written
	})
	s := p.open(t, "x", true)
	<-written
	if _, err := s.TryRead(make([]byte, 1)); !errors.Is(err, link.ErrWouldBlock) {
		t.Errorf("before Flush: %v", err)
	}
	flusher.Flush()
	if buf := make([]byte, 5); !readFull(s, buf) || string(buf) != "later" {
		t.Errorf("after Flush: %q", buf)
	}
	written <- nil
	s.Finish()
}

// TestTryWrite sends without waiting up to the window.
func TestTryWrite(t *testing.T) {
	p := newPair(t, func(s *link.Stream) {
		n, err := s.TryWrite(make([]byte, 1<<20))
		if n != 64<<10 || err != nil {
			t.Errorf("took %d bytes, %v", n, err)
		}
		_, _ = s.Write(make([]byte, 1<<20-n))
	})
	s := p.open(t, "x", true)
	if n := len(read(t, s)); n != 1<<20 {
		t.Errorf("read %d bytes", n)
	}
	s.Finish()
}

func TestManyStreamsAtOnce(t *testing.T) {
	p := newPair(t, echo)
	var clients sync.WaitGroup
	for range testkit.AtScale(50, 400) {
		clients.Go(func() {
			for i := range 20 {
				text := strings.Repeat("text ", 1+i*i)
				s := p.open(t, text, true)
				if got := read(t, s); got != text {
					t.Errorf("%d bytes, want %d", len(got), len(text))
				}
				s.Finish()
			}
		})
	}
	clients.Wait()
	if n := p.client.Streams(); n != 0 {
		t.Errorf("%d streams are open at the end", n)
	}
}
