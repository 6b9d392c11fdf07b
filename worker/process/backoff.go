package process

import "time"

// Bounds of the pause before an engine is started again.
const (
	FirstPause   = time.Second
	LongestPause = time.Minute
	HealthyAfter = 5 * time.Minute // in which an engine was well, the next pause is the first again
)

// Backoff computes the pauses before an engine is started again. Its zero value is ready to use.
type Backoff struct {
	last time.Duration
}

// Next returns the next pause. healthy is how long the engine was well before it ended.
func (b *Backoff) Next(healthy time.Duration) time.Duration {
	if b.last == 0 || healthy >= HealthyAfter {
		b.last = FirstPause
	} else {
		b.last = min(2*b.last, LongestPause)
	}
	return b.last
}
