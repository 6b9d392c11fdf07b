package relay

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/server"
)

const (
	// maxBacklog is how many bytes of a response are read before the client has taken them. It is more than what the kernel holds of an
	// engine's response (see [netconn.SocketBuffer]), so that all of that fits.
	maxBacklog = 256 << 10
	// maxBacklogs is how many responses of a node have a backlog at once, so 64 MiB in all.
	maxBacklogs = 256
	// segmentSize is how many bytes share one write, and its deadline.
	segmentSize = 16 << 10
)

// Backlogs bounds how many relays of a node read ahead at once. The zero value is ready for use, by several goroutines at once.
type Backlogs struct{ open atomic.Int32 }

// begin reports whether one more relay may read ahead. If so, it must call end.
func (b *Backlogs) begin() bool {
	if b.open.Add(1) <= maxBacklogs {
		return true
	}
	b.end()
	return false
}

func (b *Backlogs) end() { b.open.Add(-1) }

// backlog is what was read of a response and its client does not take at once. A goroutine writes it, and ends when all is written, or a write fails.
type backlog struct {
	relay *Relay
	w     io.Writer
	fail  func(error) // called by the goroutine if a write fails

	changed sync.Cond // after each write

	mu       sync.Mutex // guards the fields below
	segments []segment
	spare    []byte // memory of a segment; nil = none
	held     int    // bytes that are not written yet
	running  bool
	err      error // of a write

	finalBy time.Time // until when to write after the end of the context, for the goroutine; zero = it has not ended
}

// segment is a part of a backlog.
type segment struct {
	bytes []byte
	coded bool // it is coded for the connection already
}

func newBacklog(r *Relay, w io.Writer, fail func(error)) *backlog {
	b := &backlog{relay: r, w: w, fail: fail}
	b.changed.L = &b.mu
	return b
}

// add adds a copy of p, and starts the goroutine unless it runs.
func (b *backlog) add(p []byte, coded bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += len(p)
	for len(p) > 0 {
		n := min(len(p), b.roomLocked(coded))
		last := &b.segments[len(b.segments)-1]
		last.bytes = append(last.bytes, p[:n]...)
		p = p[n:]
	}
	if !b.running && b.held > 0 && b.err == nil {
		b.running = true
		go b.run()
	}
}

// roomLocked returns how many bytes the last segment has room for. There is one with room then.
func (b *backlog) roomLocked(coded bool) int {
	if n := len(b.segments); n > 0 && b.segments[n-1].coded == coded && len(b.segments[n-1].bytes) < segmentSize {
		return segmentSize - len(b.segments[n-1].bytes)
	}
	memory := b.spare
	if b.spare = nil; memory == nil {
		memory = make([]byte, 0, segmentSize)
	}
	b.segments = append(b.segments, segment{bytes: memory[:0], coded: coded})
	return segmentSize
}

// awaitRoom waits until everything that has arrived fits the backlog, or the client has taken all of the backlog. It reports whether
// to read on: the client has not, and no write has failed.
func (b *backlog) awaitRoom(arrived func() int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running && b.held+arrived() > maxBacklog {
		b.changed.Wait()
	}
	return b.running
}

// await waits until everything is written, and returns the error of the write that has failed.
func (b *backlog) await() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running {
		b.changed.Wait()
	}
	return b.err
}

// written reports whether everything is written.
func (b *backlog) written() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held == 0
}

// failure returns the error of a write that has failed, or nil.
func (b *backlog) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// run writes until nothing is left, or a write fails.
func (b *backlog) run() {
	var written []byte
	var err error
	for {
		s, more := b.next(written, err)
		if !more {
			break
		}
		if written, err = s.bytes, b.write(s); err != nil {
			b.setError(err)
			b.fail(err)
		}
	}
}

func (b *backlog) setError(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// next returns the next segment, after the one before it was written, or has failed.
func (b *backlog) next(written []byte, err error) (s segment, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.changed.Broadcast()
	b.held -= len(written)
	b.spare = written
	if err != nil || len(b.segments) == 0 {
		b.running, b.segments, b.spare = false, nil, nil
		return segment{}, false
	}
	s = b.segments[0]
	b.segments[0] = segment{}
	b.segments = b.segments[1:]
	return s, true
}

// write writes a segment within the longest stall. It recovers from panics, since the process would end.
func (b *backlog) write(s segment) (err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			err = server.NewPanicError(recovered)
		}
	}()
	r := b.relay
	if err := r.Client.SetWriteDeadline(time.Now().Add(r.stall())); err != nil {
		return err
	}
	if err := b.checkContext(); err != nil {
		return err
	}
	to := b.w
	if s.coded {
		to = r.Client
	}
	_, err = to.Write(s.bytes)
	return err
}

// checkContext is [Relay.checkContext] for all writes together after the end of the context.
func (b *backlog) checkContext() error {
	r := b.relay
	if r.Context.Err() == nil {
		return nil
	}
	if b.finalBy.IsZero() {
		b.finalBy = r.finalDeadline()
	}
	_ = r.Client.SetWriteDeadline(b.finalBy)
	if r.clientGone() {
		return context.Cause(r.Context)
	}
	return nil
}
