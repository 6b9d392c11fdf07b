package etcd

import (
	"maps"
	"time"
)

// How many lines one subject may have in the log.
const (
	toldMost  = 4
	toldEvery = time.Minute
)

// logLimiter bounds the log: of what goes on changing, by its subject. It remembers the subjects of the last two minutes.
type logLimiter struct {
	tallies map[string]tally
	swept   time.Time
}

// tally counts the lines of one subject since its first.
type tally struct {
	first   time.Time
	lines   int
	leftOut int
}

// ask reports whether one more line may be written, and how many were left out before it.
func (t *logLimiter) ask(subject string, now time.Time) (leftOut int, ok bool) {
	t.sweep(now)
	c, known := t.tallies[subject]
	switch {
	case !known || now.Sub(c.first) >= toldEvery:
		leftOut, ok = c.leftOut, true
		c = tally{first: now, lines: 1}
	case c.lines < toldMost:
		ok = true
		c.lines++
	default:
		c.leftOut++
	}
	t.tallies[subject] = c
	return leftOut, ok
}

// sweep forgets subjects that have been quiet, now and then.
func (t *logLimiter) sweep(now time.Time) {
	if now.Sub(t.swept) < toldEvery {
		return
	}
	t.swept = now
	maps.DeleteFunc(t.tallies, func(_ string, c tally) bool { return now.Sub(c.first) >= 2*toldEvery })
}
