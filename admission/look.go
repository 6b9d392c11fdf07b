package admission

import (
	"math"
	"time"
)

// look is the limit held down on purpose, to see what the engine is like with less to do; see gradient.
type look struct {
	phase     lookPhase
	below     int // slots below the limit
	began     time.Time
	seen      int       // samples at up to half of the limit, in this look or since the last one
	confirmed time.Time // when enough of them had been seen
	next      time.Time // when there may be another look
	at        float64   // the limit in the last one
}

const (
	lookSamples = 8
	lookEvery   = time.Minute
	lookLongest = 5 * time.Minute
	lookShare   = 30  // looks take one part in so many of the time
	lookMoved   = 0.2 // but for those after the limit has moved so far, as a logarithm
)

type lookPhase uint8

const (
	lookNone lookPhase = iota
	lookDown
	lookStill
	lookUp
)

// confirm counts a sample that taught the averages, if it did so because the engine had little to do.
func (g *gradient) confirm(now time.Time, light bool) {
	if !light || g.look.phase != lookNone {
		return
	}
	if g.look.seen++; g.look.seen >= lookSamples {
		g.look.seen, g.look.confirmed = 0, now
	}
}

// lookDue says whether to look. What the last look has found holds near the limit that it was taken at.
func (g *gradient) lookDue(now time.Time) bool {
	moved := math.Abs(math.Log(g.limit/g.look.at)) > lookMoved
	return g.slots() > g.min && now.Sub(g.look.confirmed) >= lookEvery && (moved || !now.Before(g.look.next))
}

// lookOn takes a look one sample further.
func (g *gradient) lookOn(now time.Time, s *sample) {
	before := g.slots()
	switch g.look.phase {
	case lookDown:
		g.look.below++
		if g.slots() <= max(g.min, int(g.limit)/2) {
			g.look.phase = lookStill
		}
	case lookStill:
		if !g.light(s) || s.granted.Before(g.changed) {
			return
		}
		if g.look.seen++; g.look.seen >= lookSamples {
			g.look.phase = lookUp
		}
	case lookUp:
		if g.look.below--; g.look.below <= 0 {
			g.endLook(now)
		}
	}
	g.restart(now, before)
}

// endLook puts the limit in force again.
func (g *gradient) endLook(now time.Time) {
	if g.look.phase == lookNone {
		return
	}
	before, took := g.slots(), now.Sub(g.look.began)
	g.look = look{at: g.limit, confirmed: now, next: now.Add(max(lookEvery, lookShare*took))}
	g.restart(now, before)
}

// tick ends a look that comes to nothing, since hardly any requests come.
func (g *gradient) tick(now time.Time) {
	if g.look.phase != lookNone && now.Sub(g.look.began) > lookLongest {
		g.endLook(now)
	}
}
