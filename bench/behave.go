package bench

import (
	"io"
	"sync/atomic"
	"time"
)

const (
	slowBuffer = 8 << 10 // what the kernel may receive for a client that reads slowly
	packet     = 1460    // of such a client's connection, in bytes
)

// slowly reads so many bytes a second.
type slowly struct {
	from io.Reader
	rate int
	next time.Time // when the next byte is due
}

// behindAtMost is how much a slow client that was late, since the machine is busy, makes up for.
const behindAtMost = 50 * time.Millisecond

func (r *slowly) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	now := time.Now()
	if least := now.Add(-behindAtMost); r.next.Before(least) {
		r.next = least
	}
	r.next = r.next.Add(time.Duration(n) * time.Second / time.Duration(r.rate))
	time.Sleep(r.next.Sub(now))
	return n, err
}

// leaving is a client that will close its connection, or that does not.
type leaving struct {
	timer *time.Timer
	done  atomic.Bool
}

// leave has conn closed when its client is to leave.
func (c *client) leave(clock clock, a *call, conn *conn) *leaving {
	l := &leaving{}
	if a.conduct.leaves > 0 {
		l.timer = time.AfterFunc(a.conduct.leaves-clock.now(), func() {
			l.done.Store(true)
			_ = conn.Close()
		})
	}
	return l
}

// stop reports whether the client had not left yet, and will not.
func (l *leaving) stop() bool { return l.timer == nil || l.timer.Stop() }

func (l *leaving) left() bool { return l.done.Load() }
