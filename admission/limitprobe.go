package admission

import (
	"math"
	"time"
)

// limitProbe lowers the limit for a while, to measure how fast the engine is with less to do; see gradient.
type limitProbe struct {
	phase     probePhase
	below     int // slots by which the limit is lowered
	began     time.Time
	samples   int       // samples at up to half of the limit, in this probe or since the last one
	confirmed time.Time // when there were last probeSamples of them
	next      time.Time // before it, a probe needs a changed limit
	lastLimit float64   // the limit at the last probe
}

const (
	probeSamples     = 8
	probeMinInterval = time.Minute
	probeMaxDuration = 5 * time.Minute
	probeTimeShare   = 30  // probes take one part in so many of the time
	probeLimitChange = 0.2 // change of the limit, as a logarithm, after which a probe may come sooner
)

type probePhase uint8

const (
	probeNone probePhase = iota
	probeDown
	probeHold
	probeUp
)

// confirm counts a sample at up to half of the limit, which makes a probe unnecessary for a while.
func (g *gradient) confirm(now time.Time, low bool) {
	if !low || g.probe.phase != probeNone {
		return
	}
	if g.probe.samples++; g.probe.samples >= probeSamples {
		g.probe.samples, g.probe.confirmed = 0, now
	}
}

// probeDue reports whether to begin a probe. The last one is still valid for limits close to that at which it was made.
func (g *gradient) probeDue(now time.Time) bool {
	moved := math.Abs(math.Log(g.limit/g.probe.lastLimit)) > probeLimitChange
	return g.slots() > g.min && now.Sub(g.probe.confirmed) >= probeMinInterval && (moved || !now.Before(g.probe.next))
}

// stepProbe continues a probe after one more sample.
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

// tick ends a probe that takes too long, because hardly any requests come.
func (g *gradient) tick(now time.Time) {
	if g.probe.phase != probeNone && now.Sub(g.probe.began) > probeMaxDuration {
		g.endProbe(now)
	}
}
