package admission

import (
	"math"
	"time"
)

// limitProbe is the limit held down on purpose, to see what the engine is like with less to do; see gradient.
type limitProbe struct {
	phase     probePhase
	below     int // slots below the limit
	began     time.Time
	samples   int       // samples at up to half of the limit, in this look or since the last one
	confirmed time.Time // when enough of them had been seen
	next      time.Time // when there may be another look
	lastLimit float64   // the limit in the last one
}

const (
	probeSamples     = 8
	probeMinInterval = time.Minute
	probeMaxDuration = 5 * time.Minute
	probeTimeShare   = 30  // looks take one part in so many of the time
	probeLimitChange = 0.2 // but for those after the limit has moved so far, as a logarithm
)

type probePhase uint8

const (
	probeNone probePhase = iota
	probeDown
	probeHold
	probeUp
)

// confirm counts a sample that taught the averages, if it did so because the engine had little to do.
func (g *gradient) confirm(now time.Time, light bool) {
	if !light || g.probe.phase != probeNone {
		return
	}
	if g.probe.samples++; g.probe.samples >= probeSamples {
		g.probe.samples, g.probe.confirmed = 0, now
	}
}

// probeDue says whether to look. What the last look has found holds near the limit that it was taken at.
func (g *gradient) probeDue(now time.Time) bool {
	moved := math.Abs(math.Log(g.limit/g.probe.lastLimit)) > probeLimitChange
	return g.slots() > g.min && now.Sub(g.probe.confirmed) >= probeMinInterval && (moved || !now.Before(g.probe.next))
}

// stepProbe takes a look one sample further.
func (g *gradient) stepProbe(now time.Time, s *sample) {
	before := g.slots()
	switch g.probe.phase {
	case probeDown:
		g.probe.below++
		if g.slots() <= max(g.min, int(g.limit)/2) {
			g.probe.phase = probeHold
		}
	case probeHold:
		if !g.underHalf(s) || s.granted.Before(g.changed) {
			return
		}
		if g.probe.samples++; g.probe.samples >= probeSamples {
			g.probe.phase = probeUp
		}
	case probeUp:
		if g.probe.below--; g.probe.below <= 0 {
			g.endProbe(now)
		}
	}
	g.restart(now, before)
}

// endProbe puts the limit in force again.
func (g *gradient) endProbe(now time.Time) {
	if g.probe.phase == probeNone {
		return
	}
	before, took := g.slots(), now.Sub(g.probe.began)
	g.probe = limitProbe{lastLimit: g.limit, confirmed: now, next: now.Add(max(probeMinInterval, probeTimeShare*took))}
	g.restart(now, before)
}

// tick ends a look that comes to nothing, since hardly any requests come.
func (g *gradient) tick(now time.Time) {
	if g.probe.phase != probeNone && now.Sub(g.probe.began) > probeMaxDuration {
		g.endProbe(now)
	}
}
