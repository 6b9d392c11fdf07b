package bench

import (
	"io"
	"sync/atomic"
	"time"
)

// behaviour is what a client does once its request is sent.
type behaviour struct {
	disconnectAt time.Duration // in the trial, when it closes its connection; 0: never
	readRate     int           // bytes that it reads per second; 0: whatever comes
}

// throttledReader reads a number of bytes per second.
type throttledReader struct {
	from io.Reader
	rate int
	next time.Time // when the next byte is due
}

// maxCatchUp is how much a reader that was late, since the machine is busy, makes up for.
const maxCatchUp = 50 * time.Millisecond

func (r *throttledReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	now := time.Now()
	if earliest := now.Add(-maxCatchUp); r.next.Before(earliest) {
		r.next = earliest
	}
	r.next = r.next.Add(time.Duration(n) * time.Second / time.Duration(r.rate))
	time.Sleep(r.next.Sub(now))
	return n, err
}

// disconnect closes a client's connection at a moment, or never.
type disconnect struct {
	timer *time.Timer
	done  atomic.Bool
}

// scheduleDisconnect has conn closed when its client is to leave.
func scheduleDisconnect(clock clock, b behaviour, conn *conn) *disconnect {
	d := &disconnect{}
	if b.disconnectAt > 0 {
		d.timer = time.AfterFunc(b.disconnectAt-clock.now(), func() {
			d.done.Store(true)
			_ = conn.Close()
		})
	}
	return d
}

// stop reports whether the client has not left, and will not.
func (d *disconnect) stop() bool { return d.timer == nil || d.timer.Stop() }

// happened reports whether the client has left.
func (d *disconnect) happened() bool { return d.done.Load() }
