package link

import (
	"fmt"
	"net"
)

// Open sends the first bytes of a stream of [Link.NewStream], and waits as Write does. With last, it sends no more than that.
func (s *Stream) Open(first []byte, last bool) error {
	flags := uint8(0)
	if last {
		flags = flagFin
	}
	_, err := s.write(first, flags)
	return err
}

// Write waits up to the deadline until the window of the other side and the link have room for all of p. The link writes it at once, joined with what
// other streams write.
func (s *Stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return s.write(p, 0)
}

// WriteLast is Write of all that is still to be sent: p, which is not empty, and the end.
func (s *Stream) WriteLast(p []byte) error {
	_, err := s.write(p, flagFin)
	return err
}

// CloseWrite says that nothing more will be sent, and that at once.
func (s *Stream) CloseWrite() error {
	s.mu.Lock()
	finished := s.finished
	s.mu.Unlock()
	if finished {
		return nil
	}
	_, err := s.write(nil, flagFin)
	return err
}

// write sends p, and with its last byte the flags.
func (s *Stream) write(p []byte, flags uint8) (int, error) {
	n, err := s.writeAll(p, flags)
	s.link.sender.flushJoined()
	return n, err
}

func (s *Stream) writeAll(p []byte, flags uint8) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.endWriteLocked()
	for {
		now, err := before(s.writeBy)
		if err == nil {
			err = s.checkWriteLocked()
		}
		if err != nil {
			return n, s.writeFailedLocked(err)
		}
		sent, err := s.appendLocked(p[n:], flags)
		if n += sent; err != nil || n == len(p) && s.isSentLocked(flags) {
			return n, err
		}
		if sent == 0 && s.queueLocked(n < len(p)) {
			s.waitLocked(&s.writer, now, s.writeBy)
		}
	}
}

// writeFailedLocked returns the error of a write that ends with err. Of a stream that is not open, nothing was sent.
func (s *Stream) writeFailedLocked(err error) error {
	if s.id == 0 {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	s.resets = true // the other side has a part
	return err
}

// isSentLocked reports whether flags have been sent.
func (s *Stream) isSentLocked(flags uint8) bool { return s.id != 0 && (flags == 0 || s.finished) }

// checkWriteLocked returns an error if nothing may be written any more.
func (s *Stream) checkWriteLocked() error {
	switch {
	case s.closed, s.finished:
		return net.ErrClosed
	case s.id == 0 && s.link.silent.Load():
		return errSilent
	}
	return s.err
}

// appendLocked appends one frame with as much of p as there is room for, and with the flags if that is all of it. It returns the number of bytes.
func (s *Stream) appendLocked(p []byte, flags uint8) (n int, err error) {
	if n = min(len(p), s.credit, maxPayload); n == 0 && len(p) > 0 {
		return 0, nil
	}
	f := frame{kind: kindData, stream: s.id, payload: p[:n]}
	if n == len(p) {
		f.flags = flags
	}
	sender := &s.link.sender
	sender.mu.Lock()
	defer sender.mu.Unlock()
	if !sender.hasRoomLocked(s) {
		return 0, nil
	}
	if s.id == 0 {
		if err := s.link.add(s); err != nil { // under the mutex, so that ids are sent in their order
			return 0, err
		}
		f.kind, f.stream, s.opensAt = kindOpen, s.id, sender.queued
	}
	sender.appendLocked(f)
	sender.passTurnLocked(s)
	s.credit -= n
	s.wrote = s.wrote || n > 0
	s.finished = f.flags&flagFin != 0
	return n, nil
}

// queueLocked queues the stream for its turn, unless it has bytes and no credit, and reports whether to wait.
func (s *Stream) queueLocked(hasBytes bool) bool {
	if s.writer == nil {
		s.writer = s.link.waiters.Get().(*waiter)
	}
	sender := &s.link.sender
	sender.mu.Lock()
	defer sender.mu.Unlock()
	mayAppend := s.credit > 0 || !hasBytes
	if mayAppend && sender.hasRoomLocked(s) {
		return false
	}
	if mayAppend {
		sender.queueLocked(s, s.writer)
	}
	sender.wakeWriterLocked()
	return true
}

func (s *Stream) endWriteLocked() {
	if s.writer == nil {
		return
	}
	sender := &s.link.sender
	sender.mu.Lock()
	sender.passTurnLocked(s)
	sender.mu.Unlock()
	s.restLocked(&s.writer)
}

// TryWrite is Write without waiting: it returns how many bytes there was room for. With a [Flusher], they are written by its Flush.
func (s *Stream) TryWrite(p []byte) (int, error) {
	n, err := s.tryWrite(p)
	if n > 0 {
		s.link.flushSoon()
	}
	return n, err
}

func (s *Stream) tryWrite(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := before(s.writeBy); err != nil {
		return 0, err
	}
	if err := s.checkWriteLocked(); err != nil {
		return 0, err
	}
	for n < len(p) {
		sent, err := s.appendLocked(p[n:], 0)
		if n += sent; err != nil || sent == 0 {
			return n, err
		}
	}
	return n, nil
}

// HasRoom reports whether Write would take n bytes without waiting, or fail.
func (s *Stream) HasRoom(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.checkWriteLocked() != nil {
		return true
	}
	sender := &s.link.sender
	sender.mu.Lock()
	defer sender.mu.Unlock()
	return s.credit >= n && sender.hasRoomLocked(s)
}

// granted lets the stream send n bytes more. The link's reader calls it.
func (s *Stream) granted(n uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > fullWindow || s.credit+int(n) > fullWindow {
		return fmt.Errorf("%w: a window of stream %d over %d bytes", errProtocol, s.id, fullWindow)
	}
	s.credit += int(n)
	s.writer.wake()
	return nil
}
