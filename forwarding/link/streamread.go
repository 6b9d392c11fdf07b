package link

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Read reads what has arrived, or waits for it up to the deadline. It returns [io.EOF] behind what the other side has sent, or an error behind what
// had arrived before the stream was reset or its link broke.
func (s *Stream) Read(p []byte) (int, error) {
	if err := s.Await(); err != nil {
		return 0, err
	}
	return s.TryRead(p)
}

// Await waits until there is something to read, an end or an error, up to the deadline.
func (s *Stream) Await() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.restLocked(&s.reader)
	for {
		now, err := before(s.readBy)
		if err != nil || s.isReadableLocked() {
			return err
		}
		s.waitLocked(&s.reader, now, s.readBy)
	}
}

// Peek waits as Await does, and returns the first byte to be read, and how many have arrived.
func (s *Stream) Peek() (first byte, arrived int, err error) {
	if err := s.Await(); err != nil {
		return 0, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, 0, net.ErrClosed
	case s.in != nil:
		return s.in.bytes[s.in.next], len(s.in.bytes) - s.in.next, nil
	case s.ended:
		return 0, 0, io.EOF
	}
	return 0, 0, s.err
}

// before returns an error if a deadline has passed, or else the time unless there is no deadline.
func before(deadline time.Time) (now time.Time, err error) {
	if deadline.IsZero() {
		return now, nil
	}
	if now = time.Now(); !now.Before(deadline) {
		err = os.ErrDeadlineExceeded
	}
	return now, err
}

func (s *Stream) isReadableLocked() bool {
	return s.in != nil || s.ended || s.err != nil || s.closed
}

// TryRead is Read without waiting, whatever the deadline: it returns [ErrWouldBlock] when nothing has arrived.
func (s *Stream) TryRead(p []byte) (int, error) {
	n, more, err := s.take(p)
	if more > 0 {
		s.link.grant(s.id, more)
	}
	return n, err
}

// take reads, and returns by how much the other side may send more.
func (s *Stream) take(p []byte) (n, more int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, 0, net.ErrClosed
	case s.in != nil:
	case s.ended: // whatever came behind the end
		return 0, 0, io.EOF
	case s.err != nil:
		return 0, 0, s.err
	default:
		return 0, 0, ErrWouldBlock
	}
	n = s.in.take(p)
	if s.in.isEmpty() {
		s.dropLocked()
	}
	if !s.ended && s.err == nil {
		more = s.window.release(n)
	}
	return n, more, nil
}

// OnArrival registers a function that the link's reader calls whenever there is something to read, an end or an error: not for what has arrived before. It must
// not wait. Nil ends that, but a call may be under way.
func (s *Stream) OnArrival(call func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.onArrival = call
	}
}

// arrived takes bytes, and perhaps the end, from the other side, and reports whether it has called the function of OnArrival. The link's reader calls it.
func (s *Stream) arrived(p []byte, last bool) (called bool, err error) {
	call, err := s.keep(p, last)
	if call != nil {
		call()
	}
	return call != nil, err
}

// keep is arrived without the call of OnArrival, which it returns.
func (s *Stream) keep(p []byte, last bool) (call func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil
	}
	if s.ended || !s.window.take(len(p)) {
		return nil, fmt.Errorf("%w: bytes of stream %d beyond its end or its window", errProtocol, s.id)
	}
	s.heard = true
	if len(p) > 0 {
		if s.in == nil {
			s.in = s.link.buffers.Get().(*buffer)
		}
		s.in.add(p)
	}
	s.ended = last
	s.reader.wake()
	return s.onArrival, nil
}
