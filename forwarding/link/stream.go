package link

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

var (
	// ErrNotSent is wrapped by the error of a stream that the other side has not accepted: what it was for may be done elsewhere.
	ErrNotSent = errors.New("the stream was not sent")
	// ErrWouldBlock is returned by [Stream.TryRead] when nothing has arrived.
	ErrWouldBlock = errors.New("nothing to read has arrived")
	// ErrReset is wrapped by the errors of a stream that the other side has reset.
	ErrReset = errors.New("the stream was reset by the other side")
	// ErrBroken is wrapped by the errors of the streams of a link that has broken.
	ErrBroken = errors.New("the link has broken")
)

// Stream is one byte stream in each direction over a [Link]. One goroutine may read while another one writes; the other methods may be
// called by any goroutine. It is a [net.Conn].
type Stream struct {
	link *Link
	id   uint32 // 0 = not open yet
	// limited reports that it counts for the limit of the link.
	limited bool

	mu     sync.Mutex // guards the fields below
	in     *buffer    // what has arrived and was not read; nil = nothing
	window window
	err    error // why nothing more arrives, and nothing can be sent
	heard  bool  // bytes or an end have arrived
	ended  bool  // the other side sends no more
	closed bool  // by this side

	wrote    bool   // bytes were sent
	finished bool   // this side sends no more
	resets   bool   // Close resets the stream
	credit   int    // how many bytes may be sent
	opensAt  uint64 // where its first frame begins, by sender.queued

	readBy, writeBy time.Time // deadlines; zero = none
	reader, writer  *waiter   // nil = no goroutine waits

	onArrival func()
	onReset   func(error)
}

var _ net.Conn = (*Stream)(nil)

// Close ends the stream. If the other side has sent its end, it gets the end of this side, together with what is written next or within a moment;
// otherwise, or after Abort or a Write that failed, the stream is reset. Further calls do nothing.
func (s *Stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	last, urgent := s.lastFrameLocked()
	s.endLocked()
	s.mu.Unlock()
	switch sender := &s.link.sender; {
	case last.kind == 0:
	case urgent:
		sender.push(last)
		sender.flushJoined()
	default:
		sender.pushLater(last)
	}
	s.link.forget(s)
	return nil
}

// lastFrameLocked returns the frame that ends the stream, if one is to be sent, and whether at once.
func (s *Stream) lastFrameLocked() (f frame, urgent bool) {
	switch {
	case s.id == 0 || s.err != nil:
		return frame{}, false
	case s.resets || !s.ended:
		return frame{kind: kindReset, stream: s.id}, true
	case s.finished:
		return frame{}, false
	}
	return frame{kind: kindData, flags: flagFin, stream: s.id}, !s.wrote
}

// endLocked releases what the stream holds.
func (s *Stream) endLocked() {
	s.closed = true
	s.onReset, s.onArrival = nil, nil
	s.dropLocked()
	s.reader.wake()
	s.writer.wake()
}

// dropLocked drops what was not read.
func (s *Stream) dropLocked() {
	if s.in != nil {
		s.link.releaseBuffer(s.in)
		s.in = nil
	}
}

// Finish ends a stream of which all that matters was read: what the other side still sends is dropped, and it notices nothing.
func (s *Stream) Finish() {
	s.mu.Lock()
	quiet := s.finished && s.err == nil && !s.closed
	if quiet {
		s.endLocked()
	}
	s.mu.Unlock()
	if !quiet {
		_ = s.Close()
		return
	}
	s.link.forget(s)
}

// Abort makes Close reset the stream behind what was written, so that the other side does not take that for complete.
func (s *Stream) Abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets = true
}

// OnReset registers a function that is called once, by the link's reader, when the other side resets the stream or its link breaks; if that has happened before,
// by this goroutine. It is not called after Close or Finish. It must not wait. Nil ends that.
func (s *Stream) OnReset(call func(error)) {
	s.mu.Lock()
	err := s.err
	if err == nil && !s.closed {
		s.onReset = call
	}
	now := err != nil && !s.closed && call != nil
	s.mu.Unlock()
	if now {
		call(err)
	}
}

// broke ends the stream with an error, behind what has arrived. The link's reader calls it.
func (s *Stream) broke(err error) {
	s.mu.Lock()
	if s.closed || s.err != nil {
		s.mu.Unlock()
		return
	}
	if s.heard && errors.Is(err, ErrNotSent) {
		err = ErrReset // it has answered, whatever it says: the request must not be sent again
	}
	s.err = err
	s.reader.wake()
	s.writer.wake()
	arrival, reset := s.onArrival, s.onReset
	s.onReset = nil
	s.mu.Unlock()
	if arrival != nil {
		arrival()
	}
	if reset != nil {
		reset(err)
	}
}

// orNotSent returns the error of a stream whose link has broken with an error, after the connection had begun to take so many bytes.
func (s *Stream) orNotSent(broken error, begun uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOurs() && s.opensAt >= begun {
		return fmt.Errorf("%w: %w", ErrNotSent, broken)
	}
	return broken
}

// isOurs reports whether this side has opened the stream.
func (s *Stream) isOurs() bool { return s.link.accept == nil }

// waitLocked waits once, without the mutex, and may return too early. The goroutine calls restLocked when it waits no more.
func (s *Stream) waitLocked(with **waiter, now, until time.Time) {
	w := *with
	if w == nil {
		w = s.link.waiters.Get().(*waiter)
		*with = w
	}
	s.mu.Unlock()
	w.wait(now, until)
	s.mu.Lock()
}

// restLocked ends the use of a waiter.
func (s *Stream) restLocked(with **waiter) {
	if *with != nil {
		s.link.waiters.Put(*with)
		*with = nil
	}
}

// Link returns the link of the stream.
func (s *Stream) Link() *Link { return s.link }

// LocalAddr returns the address of this side of the link.
func (s *Stream) LocalAddr() net.Addr { return s.link.conn.LocalAddr() }

// RemoteAddr returns the address of the other side of the link.
func (s *Stream) RemoteAddr() net.Addr { return s.link.conn.RemoteAddr() }

// SetReadDeadline sets the deadline of reads, also of one that waits.
func (s *Stream) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readBy = t
	s.reader.wake()
	return nil
}

// SetWriteDeadline sets the deadline of writes, also of one that waits.
func (s *Stream) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writeBy = t
	s.writer.wake()
	return nil
}

// SetDeadline sets both deadlines.
func (s *Stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}
