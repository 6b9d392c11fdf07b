package admission

import (
	"math"
	"time"
)

// pressure is what an engine's own metrics say about its limit.
//
// An engine with requests that it has not begun, in two answers in a row, has enough: the limit does not rise. If these are more than one
// in twenty of those that it was given, the limit falls to what it has begun, by a quarter at most, and does not rise above that for some
// minutes: it would be the same again. An engine whose KV cache is nearly full gets no higher limit either, since it would set aside
// requests that it has begun.
//
// A request waits inside for a moment in any case, until the engine begins its next step. So all this counts only unless answers contradict
// it: if they begin as soon as they do with half as many requests, nothing is queued. Requests that were granted before the limit fell are
// no sign that it must fall further: answers count only once no more slots are held than the limit has.
type pressure struct {
	waiting, queued int  // answers in a row in which requests waited; in which so many did that the limit was too high
	full            bool // the KV cache is

	ceiling float64 // above which the limit does not rise
	until   time.Time

	excess float64 // mean of the last round that was judged, see gradient
	judged time.Time
}

const (
	pressureAnswers  = 2               // in a row, before anything follows
	queuedShare      = 20              // one request in so many may wait inside
	pressureStep     = 0.75            // least factor of one step down
	ceilingDuration  = 5 * time.Minute // after a step down
	fullCache        = 0.95            // share of a KV cache that is nearly full
	excessValid      = 2 * time.Minute // for which a round says how soon answers begin
	excessSamples    = 4               // of an unfinished round, that say it too
	queuedExcessRate = 1.2             // growth of the time to the first token below which nothing is queued
)

// engineLoad is an engine's load by its own metrics.
type engineLoad struct {
	running, waiting int
	known            bool // of both
	full             bool // its KV cache is nearly full
	held             int  // slots taken when it was asked
}

// report takes what the engine says. ok is false once it has said nothing for so long that nothing is known.
func (g *gradient) report(now time.Time, l engineLoad, ok bool) {
	p := &g.pressure
	p.full = ok && l.full
	if !ok || !l.known || l.waiting == 0 || g.contradicted(now) {
		p.waiting, p.queued = 0, 0
		return
	}
	if p.waiting++; p.waiting >= pressureAnswers {
		g.growingFast = false
	}
	if !g.queues(&l) {
		p.queued = 0
		return
	}
	if p.queued++; p.queued >= pressureAnswers {
		g.stepDown(now, &l)
	}
}

// queues reports whether so many requests wait inside that the limit is too high. A limit that is not nearly reached, or not in force yet,
// says nothing, and during a probe it is low on purpose.
func (g *gradient) queues(l *engineLoad) bool {
	return queuedShare*l.waiting > l.held && 2*l.held > int(g.limit) && l.held <= g.slots() && g.probe.phase == probeNone
}

// stepDown lowers the limit towards what the engine has begun of the requests that it was given.
func (g *gradient) stepDown(now time.Time, l *engineLoad) {
	begun := float64(l.held) * float64(l.running) / float64(l.running+l.waiting)
	if limit := g.bounded(max(begun, pressureStep*g.limit)); limit < g.limit {
		g.setLimit(now, limit)
	}
	g.pressure.queued = 0
	g.pressure.ceiling, g.pressure.until = g.limit, now.Add(ceilingDuration)
}

// contradicted reports whether answers begin so soon that no request can be queued inside.
func (g *gradient) contradicted(now time.Time) bool {
	if g.round.n >= excessSamples {
		return g.round.sum/float64(g.round.n) < math.Log(queuedExcessRate)
	}
	p := &g.pressure
	return !p.judged.IsZero() && now.Sub(p.judged) <= excessValid && p.excess < math.Log(queuedExcessRate)
}

// mayGrow returns the limit that may follow where answers alone would allow so much.
func (g *gradient) mayGrow(now time.Time, limit float64) float64 {
	p := &g.pressure
	if p.full || p.waiting >= pressureAnswers {
		limit = min(limit, g.limit)
	}
	if now.Before(p.until) {
		limit = min(limit, max(g.limit, p.ceiling))
	}
	return limit
}
