package server

import (
	"math/rand/v2"
	"time"
)

// bodyMemoryError is the refusal of a body for which there is no memory, or whose memory another body got.
type bodyMemoryError struct {
	message    string // for the client
	retryAfter time.Duration
}

func (e *bodyMemoryError) Error() string { return e.message }

// bodyRefusal is the cause of a bodyMemoryError; %s is the holder.
type bodyRefusal string

const (
	holderFull  bodyRefusal = "the request bodies that this %s is still sending take as much memory as they may: send fewer large ones at once"
	memoryFull  bodyRefusal = "request bodies that are still arriving take all memory, and those of this %s are not less than others'"
	bodyEvicted bodyRefusal = "the request bodies that this %s is still sending took more memory than others', which needed it"
)

// freedRate measures how fast memory comes free, over the last one to two progressWindows.
type freedRate struct {
	since             time.Time // begin of the current window
	current, previous int64     // bytes
}

func (r *freedRate) add(n int64, now time.Time) {
	r.advance(now)
	r.current += n
}

func (r *freedRate) advance(now time.Time) {
	switch passed := now.Sub(r.since); {
	case passed >= 2*progressWindow:
		*r = freedRate{since: now}
	case passed >= progressWindow:
		*r = freedRate{since: r.since.Add(progressWindow), previous: r.current}
	}
}

// timeFor returns how long n bytes are expected to take to come free: a second to progressWindow, after which no body without progress
// is left, and up to a quarter more, so that clients do not come back together.
func (r *freedRate) timeFor(n int, now time.Time) time.Duration {
	r.advance(now)
	expected := progressWindow
	if freed := r.current + r.previous; freed > 0 {
		measured := now.Sub(r.since)
		if r.previous > 0 {
			measured += progressWindow
		}
		expected = time.Duration(float64(n) / float64(freed) * float64(measured))
	}
	expected = min(max(expected, time.Second), progressWindow)
	return expected + rand.N(expected/4)
}
