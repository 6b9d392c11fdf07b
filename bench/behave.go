package bench

import (
	"io"
	"sync/atomic"
	"time"
)

// slowBuffer is what the kernel may receive for a client that reads slowly: about the least that it allows.
const slowBuffer = 4 << 10

// slowly reads so many bytes a second.
type slowly struct {
	from io.Reader
	rate int
}

func (r *slowly) Read(b []byte) (int, error) {
	n, err := r.from.Read(b[:min(len(b), 1<<10)])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(r.rate))
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
