package link

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// maxStreams is how many streams the side that accepts them has open at once.
	maxStreams = 16 << 10
	// maxOpened is the same of the side that opens them. It is less since that side is the first to forget a stream.
	maxOpened = maxStreams / 2
)

// Config is what a link needs.
type Config struct {
	Conn net.Conn // the link closes it
	// TryWrite writes what Conn takes at once, without waiting; nil = Conn cannot do that.
	TryWrite func(p []byte) (int, error)
	// Accept is called by the link's reader with each stream that the other side opens, and must not wait; nil = this side opens the streams.
	Accept func(*Stream)
	// Limit, unless it is nil, bounds the streams that are accepted.
	Limit *Limit
	// Flusher, unless it is nil, writes what [Stream.TryWrite] has left, and is called by the reader after each round.
	Flusher *Flusher
	// Rest, unless it is nil, is called by the reader after a round with many frames, to let more arrive before the next.
	Rest func()
}

// Link is one end of a connection that carries streams. Its methods may be called by several goroutines at once.
type Link struct {
	conn    net.Conn
	accept  func(*Stream)
	limit   *Limit
	flusher *Flusher
	rest    func()
	sender  sender

	waiters sync.Pool // of *waiter
	buffers sync.Pool // of *buffer
	rounds  atomic.Uint64
	silent  atomic.Bool   // the other side has not answered a ping: no further stream is opened
	steps   uint64        // calls of functions of OnArrival; of the reader
	done    chan struct{} // closed at the end of Run
	stop    chan struct{} // closed with the connection

	mu       sync.Mutex // guards the fields below
	streams  map[uint32]*Stream
	last     uint32 // id that was opened, or accepted
	draining bool   // no stream is opened any more
	final    uint32 // id that was accepted last, once GoAway was called
	cause    error  // why the connection was closed
	stopped  bool
}

// errEnded is the cause of the end of a link that has done its work.
var errEnded = errors.New("the link has ended")

// New returns a link. The caller must call Run.
func New(c Config) *Link {
	l := &Link{
		conn: c.Conn, accept: c.Accept, limit: c.Limit, flusher: c.Flusher, rest: c.Rest,
		waiters: sync.Pool{New: newWaiter}, buffers: sync.Pool{New: newBuffer},
		done: make(chan struct{}), stop: make(chan struct{}), streams: map[uint32]*Stream{},
	}
	l.sender = sender{conn: c.Conn, tryWrite: c.TryWrite, fail: l.fail, left: make(chan struct{}, 1), stop: l.stop, yield: runtime.Gosched}
	return l
}

// Run reads and writes until the link ends, and returns why: nil after the last stream, or when either side has closed a link without streams.
func (l *Link) Run() error {
	defer close(l.done)
	var others sync.WaitGroup
	others.Go(l.sender.run)
	others.Go(l.watch)
	l.fail(l.read())
	others.Wait()
	err := l.breakStreams()
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// fail closes the connection, which ends Run. The first cause counts.
func (l *Link) fail(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return
	}
	l.stopped, l.draining, l.cause = true, true, cause
	close(l.stop)
	_ = l.conn.Close()
}

// breakStreams ends all streams, and returns the cause.
func (l *Link) breakStreams() error {
	begun := l.sender.close()
	l.mu.Lock()
	streams, cause := l.streams, l.cause
	l.streams = nil
	l.mu.Unlock()
	if len(streams) == 0 && isEnd(cause) {
		return errEnded
	}
	broken := fmt.Errorf("%w: %v", ErrBroken, cause) //nolint:errorlint // its timeouts are none of an exchange
	for _, s := range streams {
		s.broke(s.orNotSent(broken, begun))
	}
	return broken
}

// Open opens a stream with its first bytes, and waits as [Stream.Write] does. With last, it sends no more than that. The error wraps [ErrNotSent] if the other
// side has nothing of it.
func (l *Link) Open(first []byte, last bool) (*Stream, error) {
	s := l.NewStream()
	if err := s.Open(first, last); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// NewStream returns a stream that is opened by its first bytes: see [Stream.Open].
func (l *Link) NewStream() *Stream {
	return &Stream{link: l, window: newWindow(), credit: fullWindow}
}

// add registers a stream that is opened now.
func (l *Link) add(s *Stream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.accept != nil:
		return fmt.Errorf("%w: only the side that dialled opens streams", ErrNotSent)
	case l.draining:
		return fmt.Errorf("%w: the link takes no further streams", ErrNotSent)
	case len(l.streams) >= maxOpened || l.last == lastID:
		return fmt.Errorf("%w: the link has %d streams", ErrNotSent, len(l.streams))
	}
	l.last++
	s.id = l.last
	l.streams[s.id] = s
	return nil
}

// lastID is the highest id of a stream.
const lastID = 1<<32 - 1

// forget removes a stream that has ended. It is called once for each, also after the link has broken.
func (l *Link) forget(s *Stream) {
	if s.limited {
		l.limit.release()
	}
	l.mu.Lock()
	delete(l.streams, s.id)
	over := l.isOverLocked()
	l.mu.Unlock()
	if over {
		l.end()
	}
}

// isOverLocked reports whether this side is to end the link. It is the side that opens streams: the other one may have sent what was not read yet.
func (l *Link) isOverLocked() bool {
	return l.draining && !l.stopped && len(l.streams) == 0 && l.accept == nil
}

// end ends the link when all has been written.
func (l *Link) end() {
	l.sender.flush()
	l.fail(errEnded)
}

// GoAway announces that this side accepts, or opens, no further streams. The link ends after its last one.
func (l *Link) GoAway() {
	l.mu.Lock()
	known := l.draining
	l.draining, l.final = true, l.last
	final, over := l.final, l.isOverLocked()
	l.mu.Unlock()
	switch {
	case over:
		l.end()
	case !known:
		l.sender.push(frame{kind: kindGoAway, stream: final})
		l.sender.flush()
	}
}

// Close breaks the link, and all of its streams.
func (l *Link) Close() error {
	l.fail(net.ErrClosed)
	return nil
}

// Streams returns the number of open streams.
func (l *Link) Streams() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.streams)
}

// Usable reports whether a stream can be opened, and the other side shows signs of life.
func (l *Link) Usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.draining && !l.silent.Load() && len(l.streams) < maxOpened && l.last < lastID
}

// Done returns a channel that is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// grant lets the other side of a stream send more.
func (l *Link) grant(id uint32, more int) {
	l.sender.push(windowFrame(id, more))
	l.sender.flush()
}

// flushSoon has written what was appended: by the flusher, if there is one.
func (l *Link) flushSoon() {
	if l.flusher == nil {
		l.sender.flush()
	} else if l.sender.markDirty() {
		l.flusher.add(l)
	}
}

// releaseBuffer takes back a buffer that no stream uses.
func (l *Link) releaseBuffer(b *buffer) {
	if cap(b.bytes) <= fullWindow {
		b.bytes, b.next = b.bytes[:0], 0
		l.buffers.Put(b)
	}
}
