package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

const (
	// readSize is how many bytes a round reads at most.
	readSize = 64 << 10
	// busyRound is how many calls of functions of OnArrival make a round busy.
	busyRound = 4
)

// read handles frames until the connection fails. It never waits for anything else.
func (l *Link) read() error {
	buf := make([]byte, readSize)
	for have := 0; ; {
		n, err := l.conn.Read(buf[have:])
		if n > 0 {
			l.rounds.Add(1)
			have += n
			used, busy, err := l.handleAll(buf[:have])
			if err != nil {
				return err
			}
			have = copy(buf, buf[used:have])
			l.sender.flush()
			l.flusher.Flush()
			if busy && l.rest != nil {
				l.rest()
			}
		}
		if err != nil {
			return err
		}
	}
}

// handleAll handles the frames that have arrived as a whole, and returns their size and whether the round was busy.
func (l *Link) handleAll(b []byte) (used int, busy bool, err error) {
	for before := l.steps; ; {
		f, size, err := parse(b[used:])
		if err != nil || size == 0 {
			return used, l.steps-before >= busyRound, err
		}
		if err := l.handle(&f); err != nil {
			return used, false, err
		}
		used += size
	}
}

func (l *Link) handle(f *frame) error {
	switch f.kind {
	case kindOpen:
		return l.handleOpen(f)
	case kindGoAway:
		return l.handleGoAway(f.stream)
	case kindPing:
		return l.answer(frame{kind: kindPong})
	case kindPong:
		return nil
	}
	s, err := l.known(f)
	if s == nil {
		return err
	}
	switch f.kind {
	case kindWindow:
		return s.granted(binary.LittleEndian.Uint32(f.payload))
	case kindReset:
		if f.flags&flagRefused != 0 && l.accept == nil {
			s.broke(fmt.Errorf("%w: the other side has too many streams", ErrNotSent))
		} else {
			s.broke(ErrReset)
		}
		return nil
	}
	called, err := s.arrived(f.payload, f.flags&flagFin != 0)
	if called {
		l.steps++
	}
	return err
}

// answer appends a frame for which the other side has asked, unless it asks for much and reads nothing.
func (l *Link) answer(f frame) error {
	if l.sender.pending() > maxAnswers {
		return fmt.Errorf("%w: it does not read the answers to what it sends", errProtocol)
	}
	l.sender.push(f)
	return nil
}

// known returns the stream of a frame, or nil if this side has forgotten it.
func (l *Link) known(f *frame) (*Stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.stream > l.last {
		return nil, fmt.Errorf("%w: a frame of stream %d, which is not open", errProtocol, f.stream)
	}
	return l.streams[f.stream], nil
}

// handleOpen accepts a stream.
func (l *Link) handleOpen(f *frame) error {
	if l.accept == nil {
		return fmt.Errorf("%w: it opens a stream", errProtocol)
	}
	s := l.NewStream()
	s.id = f.stream
	accepted, refused, err := l.register(s)
	if err != nil {
		return err
	}
	if refused {
		return l.answer(frame{kind: kindReset, flags: flagRefused, stream: f.stream})
	}
	if _, err := s.arrived(f.payload, f.flags&flagFin != 0); err != nil {
		return err
	}
	if accepted { // else it came behind GoAway
		l.accept(s)
	}
	return nil
}

// register adds a stream of the other side, unless this side is draining. It reports whether it was added, and whether it is refused, since there are too many.
func (l *Link) register(s *Stream) (accepted, refused bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == lastID || s.id != l.last+1 {
		return false, false, fmt.Errorf("%w: stream %d is opened after stream %d", errProtocol, s.id, l.last)
	}
	l.last = s.id
	switch {
	case len(l.streams) >= maxStreams:
		return false, true, nil
	case l.draining:
		return false, false, nil
	case !l.limit.take():
		return false, true, nil
	}
	l.streams[s.id], s.limited = s, true
	return true, false, nil
}

// handleGoAway stops opening streams. Those after the last that was accepted have not been sent.
func (l *Link) handleGoAway(final uint32) error {
	l.mu.Lock()
	l.draining = true
	var refused []*Stream
	if l.accept == nil {
		for id, s := range l.streams {
			if id > final {
				refused = append(refused, s)
			}
		}
	}
	over := l.isOverLocked()
	l.mu.Unlock()
	for _, s := range refused {
		s.broke(fmt.Errorf("%w: the other side accepts no further streams", ErrNotSent))
	}
	if over {
		return errEnded
	}
	return nil
}

// isEnd reports whether an error is that of a connection that was closed in order, by either side.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, errEnded) || errors.Is(err, net.ErrClosed)
}
