package link_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/forwarding/link"
	"colonnade/internal/testkit"
)

func TestBrokenLinkEndsEachStreamWithAnError(t *testing.T) {
	var resets sync.WaitGroup
	resets.Add(50)
	p := newPair(t, func(s *link.Stream) {
		s.OnReset(func(err error) {
			if !errors.Is(err, link.ErrBroken) {
				t.Errorf("OnReset: %v", err)
			}
			resets.Done()
		})
		_, _ = io.WriteString(s, "half")
		if _, err := io.ReadAll(s); !errors.Is(err, link.ErrBroken) {
			t.Errorf("a stream of the server: %v", err)
		}
	})
	var streams []*link.Stream
	for range 50 {
		s := p.open(t, "x", false)
		if half := make([]byte, 4); !readFull(s, half) {
			t.Fatal("no bytes")
		}
		streams = append(streams, s)
	}
	_ = p.clientConn.SetLinger(0)
	_ = p.client.Close()
	for _, s := range streams {
		if n, err := s.Read(make([]byte, 1)); !errors.Is(err, link.ErrBroken) || errors.Is(err, link.ErrNotSent) {
			t.Errorf("read %d bytes, %v", n, err)
		}
		_ = s.Close()
	}
	resets.Wait()
	if _, err := p.client.Open(nil, true); !errors.Is(err, link.ErrNotSent) {
		t.Errorf("a stream after the end: %v", err)
	}
	if err := <-p.serverEnd; !errors.Is(err, link.ErrBroken) {
		t.Errorf("the server's link ended with %v", err)
	}
}

// TestNotSent breaks a link whose connection takes nothing.
func TestNotSent(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	l := link.New(link.Config{Conn: near, TryWrite: func([]byte) (int, error) { return 0, nil }})
	ended := make(chan error)
	go func() { ended <- l.Run() }()
	first, err := l.Open([]byte("first"), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(far, make([]byte, 1)); err != nil { // a part of the first frame
		t.Fatal(err)
	}
	second, err := l.Open([]byte("second"), true)
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	<-ended
	if _, err := first.Read(nil); !errors.Is(err, link.ErrBroken) || errors.Is(err, link.ErrNotSent) {
		t.Errorf("a stream that was sent in part: %v", err)
	}
	if _, err := second.Read(nil); !errors.Is(err, link.ErrNotSent) {
		t.Errorf("a stream that was not sent: %v", err)
	}
}

func TestGoAwayOfTheServer(t *testing.T) {
	release := make(chan struct{})
	p := newPair(t, func(s *link.Stream) {
		<-release
		_, _ = io.WriteString(s, "answer")
	})
	s := p.open(t, "x", true)
	testkit.WaitFor(t, "the server to accept the stream", func() bool { return p.server.Streams() == 1 })
	p.server.GoAway()
	testkit.WaitFor(t, "the client to learn it", func() bool { return !p.client.Usable() })
	if _, err := p.client.Open(nil, true); !errors.Is(err, link.ErrNotSent) {
		t.Errorf("a further stream: %v", err)
	}
	close(release)
	if got := read(t, s); got != "answer" {
		t.Errorf("the stream that was open: %q", got)
	}
	s.Finish()
	if err := <-p.clientEnd; err != nil {
		t.Errorf("the client's end: %v", err)
	}
	if err := <-p.serverEnd; err != nil {
		t.Errorf("the server's end: %v", err)
	}
}

func TestGoAwayOfTheClient(t *testing.T) {
	p := newPair(t, echo)
	p.client.GoAway()
	if a, b := <-p.clientEnd, <-p.serverEnd; a != nil || b != nil {
		t.Errorf("a link without streams ended with %v and %v", a, b)
	}
}

// TestGoAwayRefusesWhatWasUnderWay has the client open a stream that the server's GoAway does not count.
func TestGoAwayRefusesWhatWasUnderWay(t *testing.T) {
	peer := newRawPeer(t)
	first, second := peer.open("first"), peer.open("second")
	peer.send(kindGoAway, 0, 1, "")
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, link.ErrNotSent) {
		t.Errorf("the stream behind the last that was accepted: %v", err)
	}
	peer.send(kindData, flagFin, 1, "answer")
	if got := read(t, first); got != "answer" {
		t.Errorf("the stream that was accepted: %q", got)
	}
}

func TestRefusedStreamWasNotSent(t *testing.T) {
	peer := newRawPeer(t)
	s := peer.open("x")
	peer.send(kindReset, flagRefused, 1, "")
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, link.ErrNotSent) {
		t.Error(err)
	}
}

func TestSilenceIsAllowedWithoutStreamsAndWithPongs(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(s *link.Stream) { _, _ = s.Read(make([]byte, 10)); _, _ = s.Read(make([]byte, 1)) })
	idle := newRawPeer(t)
	s := p.open(t, "x", false)
	_ = s.SetReadDeadline(time.Now().Add(8 * time.Second))
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stream without bytes, whose peer answers pings: %v", err)
	}
	_ = s.Close()
	if !idle.link.Usable() {
		t.Error("a link without streams has ended")
	}
}

func TestServerEndsADrainedLink(t *testing.T) {
	t.Parallel()
	near, far := testkit.TCPPair(t)
	l := link.New(link.Config{Conn: near, Accept: func(*link.Stream) {}})
	ended := make(chan error)
	go func() { ended <- l.Run() }()
	l.GoAway()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if all, err := io.ReadAll(far); err != nil || len(all) != 8 {
		t.Errorf("the client got %d bytes, %v", len(all), err)
	}
}

// Frames as rawPeer writes them.
const (
	kindOpen    = 1
	kindData    = 2
	kindWindow  = 3
	kindReset   = 4
	kindPing    = 5
	kindGoAway  = 7
	flagFin     = 1
	flagRefused = 2
)

// rawPeer is the other side of a client's link, which writes bytes.
type rawPeer struct {
	t    testing.TB
	link *link.Link
	conn net.Conn
	end  chan error
}

func newRawPeer(t testing.TB) *rawPeer {
	t.Helper()
	near, far := testkit.TCPPair(t)
	p := &rawPeer{t: t, conn: far, end: make(chan error, 1)}
	p.link = link.New(link.Config{Conn: near, TryWrite: tryWrite(near)})
	go func() { p.end <- p.link.Run() }()
	t.Cleanup(func() {
		_ = p.link.Close()
		<-p.link.Done()
	})
	return p
}

// open opens a stream, and returns when its frame has arrived.
func (p *rawPeer) open(first string) *link.Stream {
	p.t.Helper()
	s, err := p.link.Open([]byte(first), true)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = s.SetDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(p.conn, make([]byte, 8+len(first))); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = s.Close() })
	return s
}

func rawFrame(kind, flags byte, stream uint32, payload string) []byte {
	b := append([]byte{kind, flags}, 0, 0)
	binary.LittleEndian.PutUint16(b[2:], uint16(len(payload)))
	return append(binary.LittleEndian.AppendUint32(b, stream), payload...)
}

func (p *rawPeer) send(kind, flags byte, stream uint32, payload string) {
	p.t.Helper()
	if _, err := p.conn.Write(rawFrame(kind, flags, stream, payload)); err != nil {
		p.t.Fatal(err)
	}
}

func TestViolations(t *testing.T) {
	f := func(what string, frames ...[]byte) {
		t.Helper()
		p := newRawPeer(t)
		s := p.open("x")
		for _, frame := range frames {
			_, _ = p.conn.Write(frame)
		}
		select {
		case err := <-p.end:
			if err == nil || !strings.Contains(err.Error(), "violated") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s does not break the link", what)
		}
		if _, err := io.ReadAll(s); !errors.Is(err, link.ErrBroken) && what != "bytes behind the end" {
			t.Errorf("%s: the stream ends with %v", what, err)
		}
	}
	full := strings.Repeat("x", 16<<10)
	f("an unknown type", rawFrame(9, 0, 1, ""))
	f("type 0", rawFrame(0, 0, 1, ""))
	f("an unknown flag", rawFrame(kindData, 4, 1, ""))
	f("a payload that is too long", rawFrame(kindData, 0, 1, full+"x"))
	f("a stream that is not open", rawFrame(kindData, 0, 2, ""))
	f("a stream that a server opens", rawFrame(kindOpen, 0, 2, ""))
	f("bytes behind the end", rawFrame(kindData, flagFin, 1, ""), rawFrame(kindData, 0, 1, "x"))
	f("bytes beyond the window", rawFrame(kindData, 0, 1, full), rawFrame(kindData, 0, 1, full), rawFrame(kindData, 0, 1, full), rawFrame(kindData, 0, 1, full),
		rawFrame(kindData, 0, 1, "x"))
	f("a window that is too large", rawFrame(kindWindow, 0, 1, "\x00\x00\x10\x01"))
	f("a window of a wrong size", rawFrame(kindWindow, 0, 1, "\x00\x00\x10"))
	f("a ping of a stream", rawFrame(kindPing, 0, 1, ""))
	f("bytes of no stream", rawFrame(kindData, 0, 0, ""))
}

func TestViolationsOfAClient(t *testing.T) {
	f := func(what string, frames ...[]byte) {
		t.Helper()
		near, far := testkit.TCPPair(t)
		l := link.New(link.Config{Conn: near, Accept: func(*link.Stream) {}})
		end := make(chan error, 1)
		go func() { end <- l.Run() }()
		for _, frame := range frames {
			_, _ = far.Write(frame)
		}
		select {
		case err := <-end:
			if err == nil || !strings.Contains(err.Error(), "violated") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(patience):
			t.Fatalf("%s does not break the link", what)
		}
	}
	f("the second stream first", rawFrame(kindOpen, 0, 2, ""))
	f("a stream that is opened twice", rawFrame(kindOpen, 0, 1, ""), rawFrame(kindOpen, 0, 1, ""))
	f("stream 0", rawFrame(kindOpen, 0, 0, ""))
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	near, far := testkit.TCPPair(t)
	l := link.New(link.Config{Conn: near, TryWrite: tryWrite(near), Accept: func(*link.Stream) {}})
	end := make(chan error, 1)
	go func() { end <- l.Run() }()
	const limit = 16 << 10
	var all []byte
	for id := range uint32(limit + 1) {
		all = append(all, rawFrame(kindOpen, 0, id+1, "")...)
	}
	go func() { _, _ = far.Write(all) }()
	answer := make([]byte, 8)
	_ = far.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(far, answer); err != nil || string(answer) != string(rawFrame(kindReset, flagRefused, limit+1, "")) {
		t.Errorf("the answer to one stream too many: %x, %v", answer, err)
	}
	if n := l.Streams(); n != limit {
		t.Error(fmt.Errorf("%d streams are open", n))
	}
	_ = l.Close()
	<-end
}
