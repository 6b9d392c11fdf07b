package link_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/forwarding/link"
)

// pipedLink is a link over a pipe, for tests with a clock of their own. The test is its other side.
type pipedLink struct {
	*link.Link
	far   net.Conn
	ended chan error
}

func newPipedLink(t *testing.T, accept func(*link.Stream)) *pipedLink {
	near, far := net.Pipe()
	p := &pipedLink{link.New(link.Config{Conn: near, Accept: accept}), far, make(chan error, 1)}
	go func() { p.ended <- p.Run() }()
	t.Cleanup(func() {
		_ = p.Close()
		<-p.Done()
		_ = far.Close()
	})
	return p
}

// discard reads what the link sends.
func (p *pipedLink) discard() { go func() { _, _ = io.Copy(io.Discard, p.far) }() }

func (p *pipedLink) send(kind, flags byte, stream uint32) {
	_, _ = p.far.Write(rawFrame(kind, flags, stream, ""))
}

// hasEnded reports whether Run has returned.
func (p *pipedLink) hasEnded() bool {
	synctest.Wait()
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// A server that is stopped keeps the streams that it has, for as long as their readers wait, and gets no others. When it continues, so does the link.
func TestSilentServerKeepsItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipedLink(t, nil)
		p.discard()
		s, err := p.Open([]byte("x"), true)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SetReadDeadline(time.Now().Add(10 * time.Minute))
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a stream of a silent server: %v", err)
		}
		if p.Usable() {
			t.Error("a silent server gets further streams")
		}
		p.send(kindPing+1, 0, 0)
		time.Sleep(time.Second)
		if synctest.Wait(); !p.Usable() {
			t.Error("a server that has answered gets no further streams")
		}
		_ = s.SetReadDeadline(time.Time{})
		_, _ = p.far.Write(rawFrame(kindData, flagFin, 1, "answer"))
		if got, err := io.ReadAll(s); string(got) != "answer" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		s.Finish()
	})
}

// A stream that waits for room on a link to a silent server is not opened, so that it can be opened elsewhere.
func TestSilentServerGetsNoWaitingStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipedLink(t, nil) // without a reader
		fill(t, p.Link)
		began := time.Now()
		if _, err := p.Open([]byte("x"), true); !errors.Is(err, link.ErrNotSent) || time.Since(began) > 10*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A link to a silent server ends with its last stream.
func TestSilentServerWithoutStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipedLink(t, nil)
		p.discard()
		time.Sleep(time.Minute)
		if p.hasEnded() || !p.Usable() {
			t.Fatal("a link without streams has ended")
		}
		s, err := p.Open([]byte("x"), true)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if p.hasEnded() {
			t.Fatal("a link with a stream has ended")
		}
		_ = s.Close()
		time.Sleep(2 * time.Second)
		if !p.hasEnded() {
			t.Fatal("a link to a silent server has not ended with its last stream")
		}
		if err := <-p.ended; !errors.Is(err, link.ErrBroken) || !strings.Contains(err.Error(), "ping") {
			t.Error(err)
		}
	})
}

// A client that is silent is gone after half a minute, so that what its streams hold is free. One that answers pings is not.
func TestSilentClientHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := make(chan error, 1)
		p := newPipedLink(t, func(s *link.Stream) { s.OnReset(func(err error) { reset <- err }) })
		ping, mute := rawFrame(kindPing, 0, 0, ""), atomic.Bool{}
		go func() {
			for got := make([]byte, len(ping)); ; {
				if _, err := io.ReadFull(p.far, got); err != nil {
					return
				}
				if !mute.Load() && bytes.Equal(got, ping) {
					p.send(kindPing+1, 0, 0)
				}
			}
		}()
		p.send(kindOpen, 0, 1)
		time.Sleep(2 * time.Minute)
		if p.hasEnded() {
			t.Fatal("the link of a client that answers pings has ended")
		}
		mute.Store(true)
		time.Sleep(20 * time.Second)
		if p.hasEnded() {
			t.Fatal("the link of a client that was silent for a moment has ended")
		}
		time.Sleep(20 * time.Second)
		if !p.hasEnded() {
			t.Fatal("the link of a silent client has not ended")
		}
		if err := <-reset; !errors.Is(err, link.ErrBroken) {
			t.Error(err)
		}
	})
}

// A side that says much and reads nothing ends the link.
func TestLinkThatTakesNothingHasBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipedLink(t, nil)
		if _, err := p.Open([]byte("x"), true); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var pings sync.WaitGroup
		defer pings.Wait()
		pings.Go(func() {
			for p.Usable() {
				p.send(kindPing, 0, 0)
				time.Sleep(500 * time.Millisecond)
			}
		})
		err := <-p.ended
		if took := time.Since(began); took < 20*time.Second || took > time.Minute || !strings.Contains(err.Error(), "taken nothing") {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// Streams that would be more than the limit are refused: nothing of them was done.
func TestLimitOfStreams(t *testing.T) {
	limit, release := link.NewLimit(3), make(chan struct{})
	first := newPairWith(t, func(c *link.Config) { c.Limit = limit }, func(s *link.Stream) { <-release })
	second := newPairWith(t, func(c *link.Config) { c.Limit = limit }, echo)
	var open []*link.Stream
	for range 3 {
		open = append(open, first.open(t, "x", true))
	}
	refused := func(p *pair) bool {
		t.Helper()
		s := p.open(t, "x", true)
		defer s.Close()
		_, err := io.ReadAll(s)
		if err != nil && !errors.Is(err, link.ErrNotSent) {
			t.Errorf("one stream too many: %v", err)
		}
		return err != nil
	}
	if !refused(first) || !refused(second) {
		t.Error("one stream too many was accepted")
	}
	close(release)
	for _, s := range open {
		_, _ = io.ReadAll(s)
		_ = s.Close()
	}
	for deadline := time.Now().Add(patience); refused(second); {
		if time.Now().After(deadline) {
			t.Fatal("streams that have ended count")
		}
	}
}
