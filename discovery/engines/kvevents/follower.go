package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"colonnade/internal/ctxtime"
)

// bytesPerSecond bounds what is read of one publisher.
const bytesPerSecond = 8 << 20

// Config says whose events a follower reads.
type Config struct {
	Address string // host and port

	MinRetry, MaxRetry time.Duration // between two connections; default 1 s and 5 s

	changed chan<- struct{} // gets a value, if it has room, when the state has changed; nil: none
}

// Follower reads the events of one engine. It is safe for concurrent use.
type Follower struct {
	c Config

	mu    sync.Mutex // guards the field below
	count count
}

// New returns a follower, which does nothing until Run.
func New(c Config) *Follower {
	if c.MinRetry <= 0 {
		c.MinRetry = time.Second
	}
	if c.MaxRetry < c.MinRetry {
		c.MaxRetry = max(5*time.Second, c.MinRetry)
	}
	return &Follower{c: c}
}

// State returns what is known now.
func (f *Follower) State() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count.state
}

// Run reads events until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	wait := f.c.MinRetry
	for {
		heard, err := f.connect(ctx)
		f.note(err)
		if heard {
			wait = f.c.MinRetry
		}
		if !ctxtime.Sleep(ctx, wait/2+rand.N(wait)) {
			return
		}
		wait = min(2*wait, f.c.MaxRetry)
	}
}

// note notes that the follower is connected, with nil, or why it is not.
func (f *Follower) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count.state.Connected, f.count.state.Error = err == nil, ""
	if err != nil {
		f.count.state.Error = err.Error()
	}
	f.change()
}

// change says that the state has changed.
func (f *Follower) change() {
	select {
	case f.c.changed <- struct{}{}:
	default:
	}
}

// connect reads events over one connection until it fails, and reports whether there were any.
func (f *Follower) connect(ctx context.Context) (heard bool, err error) {
	dialer := net.Dialer{Timeout: handshakeTimeout, KeepAlive: 15 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", f.c.Address)
	if err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends a read
	defer func() {
		if stop() {
			_ = conn.Close()
		}
	}()
	s, err := subscribe(conn)
	if err != nil {
		return false, err
	}
	f.note(nil)
	pace := rate.NewLimiter(bytesPerSecond, 2*maxMessage)
	for {
		frames, size, err := s.message()
		if err == nil {
			err = f.take(frames)
		}
		if err == nil {
			heard = true
			err = pace.WaitN(ctx, size+64)
		}
		if err != nil {
			return heard, fmt.Errorf("cannot read events: %w", err)
		}
	}
}

var errFrames = errors.New("a message is no events")

// take takes a message; the last two of its frames count.
func (f *Follower) take(frames [][]byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.change()
	n := len(frames)
	if n < 2 || len(frames[n-2]) != 8 {
		f.count.lose()
		return errFrames
	}
	f.count.take(binary.BigEndian.Uint64(frames[n-2]), frames[n-1])
	return nil
}
