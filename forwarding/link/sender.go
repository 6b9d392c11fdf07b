package link

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPending is how many bytes may wait for the connection before streams wait for their turn.
	maxPending = 1 << 20
	// maxAnswers is how many bytes may wait for the connection when the other side asks for more, by pings and by streams that are refused. Nothing else bounds
	// what is sent for those.
	maxAnswers = 4 << 20
	// laterBy is the delay of frames that the other side does not wait for, unless something else is written before.
	laterBy = 100 * time.Millisecond
	// maxKept is the most memory, in bytes, that each of out and spare keeps while no frame waits, and maxIdle the most while the link has no streams.
	maxKept = 256 << 10
	maxIdle = 16 << 10
	// maxPiece is how many bytes the writer writes at once.
	maxPiece = 64 << 10
	// turnsToWrite is how many times a goroutine writes for others before the writer does it.
	turnsToWrite = 8
	// maxUnshared bounds for how many writes no goroutine waits for frames of others.
	maxUnshared = 4
)

// sender joins the frames of all streams into few writes. A goroutine that has a frame to send appends it, and writes all that there is unless another
// goroutine is writing, which will find the frame. Nothing waits for the connection but the writer.
type sender struct {
	conn     net.Conn
	tryWrite func(p []byte) (int, error) // nil = all is left to the writer
	yield    func()                      // lets other goroutines run
	fail     func(error)                 // called without the mutex
	left     chan struct{}               // wakes the writer; capacity 1
	stop     <-chan struct{}             // closed with the connection

	taken atomic.Uint64 // bytes that the connection has taken

	mu       sync.Mutex // guards the fields below
	out      []byte     // frames that no goroutine writes yet
	spare    []byte     // memory for out
	rest     []byte     // what tryWrite has left, before out
	restOf   []byte     // the whole buffer that rest lies in
	writing  bool       // a goroutine writes, or the writer is to
	closed   bool
	queued   uint64 // bytes of all frames so far
	begun    uint64 // of these, how many the connection may have
	ended    uint64 // of these, how many it has
	turns    []turn // the streams that wait for room; the first is next
	later    bool   // the timer runs
	timer    *time.Timer
	dirty    bool // the flusher has the link
	unshared int  // calls of yield in a row in which no frame came, at most maxUnshared
	skips    int  // how many writes do without yield next
}

// appendLocked appends a frame. It is written by the next flush.
func (s *sender) appendLocked(f frame) {
	before := len(s.out)
	s.out = f.append(s.out)
	s.queued += uint64(len(s.out) - before)
}

// push appends a frame without writing it.
func (s *sender) push(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appendLocked(f)
}

// pushLater appends a frame that the other side does not wait for.
func (s *sender) pushLater(f frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appendLocked(f)
	if s.later || s.writing || s.closed {
		return
	}
	s.later = true
	if s.timer == nil {
		s.timer = time.AfterFunc(laterBy, s.flushLater)
	} else {
		s.timer.Reset(laterBy)
	}
}

func (s *sender) flushLater() {
	s.mu.Lock()
	s.later = false
	s.mu.Unlock()
	s.flush()
}

// hasRoomLocked reports whether it is a stream's turn to append bytes. After close nothing waits any more: the stream learns why from its link.
func (s *sender) hasRoomLocked(of *Stream) bool {
	return s.closed || s.queued-s.ended < maxPending && (len(s.turns) == 0 || s.turns[0].stream == of)
}

// pending returns how many bytes wait for the connection.
func (s *sender) pending() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queued - s.ended
}

// flush writes what is pending, unless another goroutine does.
func (s *sender) flush() { s.write(false) }

// flushJoined is flush after goroutines that are ready to run had a chance to append frames of their own.
func (s *sender) flushJoined() { s.write(true) }

func (s *sender) write(joined bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing || s.closed || len(s.out) == 0 {
		return
	}
	s.writing = true
	if s.tryWrite == nil {
		s.wakeWriter()
		return
	}
	if joined {
		s.awaitOthersLocked()
	}
	for range turnsToWrite {
		if len(s.out) == 0 || s.closed {
			s.writing = false
			return
		}
		if !s.tryWriteLocked() {
			break
		}
	}
	s.wakeWriter()
}

// awaitOthersLocked lets goroutines that are ready to run append frames of their own. That wakes an idle processor, too. So if no frame has come, the next writes do
// not wait, and more of them each time.
func (s *sender) awaitOthersLocked() {
	if s.skips > 0 {
		s.skips--
		return
	}
	before := s.queued
	s.mu.Unlock()
	s.yield()
	s.mu.Lock()
	if s.queued != before {
		s.unshared = 0
		return
	}
	s.unshared = min(s.unshared+1, maxUnshared)
	s.skips = 1<<s.unshared - 2 // 0, 2, 6, 14
}

// tryWriteLocked writes what is pending without waiting, and reports whether the connection has taken it.
func (s *sender) tryWriteLocked() bool {
	p, memory := s.takeLocked()
	s.mu.Unlock()
	n, err := s.tryWrite(p)
	s.taken.Add(uint64(n))
	s.mu.Lock()
	s.ended += uint64(n)
	if err != nil {
		s.mu.Unlock()
		s.fail(err)
		s.mu.Lock()
		return true
	}
	if n < len(p) {
		s.begun = s.ended
		s.rest, s.restOf = p[n:], memory
		return false
	}
	s.recycleLocked(memory)
	s.nextTurnLocked()
	return true
}

// takeLocked returns what is to be written next, and the memory to recycle then.
func (s *sender) takeLocked() (p, memory []byte) {
	p, memory = s.rest, s.restOf
	if s.rest, s.restOf = nil, nil; len(p) == 0 {
		p, memory = s.out, s.out
		s.out, s.spare = s.spare[:0], nil
	}
	s.begun += uint64(len(p))
	return p, memory
}

func (s *sender) recycleLocked(memory []byte) {
	if cap(memory) <= maxKept || s.queued != s.ended {
		s.spare = memory[:0]
	}
}

// trim gives up memory that frames have needed, of a link without streams.
func (s *sender) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing || len(s.out) > 0 {
		return
	}
	for _, kept := range []*[]byte{&s.out, &s.spare} {
		if cap(*kept) > maxIdle {
			*kept = nil
		}
	}
}

// nextTurnLocked wakes the stream whose turn it is if there is room.
func (s *sender) nextTurnLocked() {
	if len(s.turns) > 0 && s.queued-s.ended < maxPending {
		s.turns[0].waiter.wake()
	}
}

// wakeWriterLocked makes the writer write what is pending, unless a goroutine does.
func (s *sender) wakeWriterLocked() {
	if !s.writing && len(s.out) > 0 {
		s.writing = true
		s.wakeWriter()
	}
}

func (s *sender) wakeWriter() {
	select {
	case s.left <- struct{}{}:
	default:
	}
}

// run writes what other goroutines have left, and may wait for that, until the link ends.
func (s *sender) run() {
	for {
		select {
		case <-s.left:
			if err := s.writeAll(); err != nil {
				s.fail(err)
				return
			}
		case <-s.stop:
			return
		}
	}
}

func (s *sender) writeAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.rest)+len(s.out) > 0 && !s.closed {
		p, memory := s.takeLocked()
		s.mu.Unlock()
		n, err := s.writeOut(p)
		s.mu.Lock()
		s.ended += uint64(n)
		if err != nil {
			return err
		}
		s.recycleLocked(memory)
		s.nextTurnLocked()
	}
	s.writing = false
	return nil
}

// writeOut writes p in pieces, for as long as that takes: see [watcher].tickStall.
func (s *sender) writeOut(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var taken int
		taken, err = s.conn.Write(p[n:min(n+maxPiece, len(p))])
		s.taken.Add(uint64(taken))
		n += taken
	}
	return n, err
}

// close ends all writing, and returns how many bytes the connection may have taken. It wakes the streams that wait for room: the link does not know those that are
// not open yet.
func (s *sender) close() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.wakeTurnsLocked()
	if s.timer != nil {
		s.timer.Stop()
	}
	return s.begun
}

// wakeTurns wakes the streams that wait for room, so that they look again.
func (s *sender) wakeTurns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeTurnsLocked()
}

func (s *sender) wakeTurnsLocked() {
	for _, t := range s.turns {
		t.waiter.wake()
	}
}

// turn is a stream that waits for room.
type turn struct {
	stream *Stream
	waiter *waiter
}

// queueLocked makes a stream wait for its turn, unless it does: see hasRoomLocked.
func (s *sender) queueLocked(of *Stream, w *waiter) {
	if !slices.ContainsFunc(s.turns, func(t turn) bool { return t.stream == of }) {
		s.turns = append(s.turns, turn{of, w})
	}
}

// passTurnLocked ends the turn of a stream, if it waits for one, and wakes the next.
func (s *sender) passTurnLocked(of *Stream) {
	if len(s.turns) == 0 {
		return
	}
	s.turns = slices.DeleteFunc(s.turns, func(t turn) bool { return t.stream == of })
	s.nextTurnLocked()
}
