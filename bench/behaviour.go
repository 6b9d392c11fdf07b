package bench

import (
	"io"
	"sync/atomic"
	"time"
)

const (
	slowBuffer = 8 << 10 // what the kernel may receive for a client that reads slowly
	slowPacket = 1460    // of such a client's connection, in bytes
)

// throttledReader reads so many bytes a second.
type throttledReader struct {
	from io.Reader
	rate int
	next time.Time // when the next byte is due
}

// maxCatchUp is how much a slow client that was late, since the machine is busy, makes up for.
const maxCatchUp = 50 * time.Millisecond

func (r *throttledReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	now := time.Now()
	if least := now.Add(-maxCatchUp); r.next.Before(least) {
		r.next = least
	}
	r.next = r.next.Add(time.Duration(n) * time.Second / time.Duration(r.rate))
	time.Sleep(r.next.Sub(now))
	return n, err
}

// disconnect is a client that will close its connection, or that does not.
type disconnect struct {
	timer *time.Timer
	done  atomic.Bool
}

// scheduleDisconnect has conn closed when its client is to leave.
func (c *client) scheduleDisconnect(clock clock, a *request, conn *conn) *disconnect {
	l := &disconnect{}
	if a.behaviour.disconnectAt > 0 {
		l.timer = time.AfterFunc(a.behaviour.disconnectAt-clock.now(), func() {
			l.done.Store(true)
			_ = conn.Close()
		})
	}
	return l
}

// stop reports whether the client had not left yet, and will not.
func (l *disconnect) stop() bool { return l.timer == nil || l.timer.Stop() }

func (l *disconnect) happened() bool { return l.done.Load() }
