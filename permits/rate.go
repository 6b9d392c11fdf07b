package permits

import (
	"time"

	"colonnade/fairqueue"
)

const (
	minCompletions   = 16 // from so many on, the rate is used
	meanWindow       = 64 // completions that a mean is taken over, roughly
	minQuietReleases = 3  // a silence counts as so many releases that are missing, or one for each slot if that is more
	maxExpectedWait  = 24 * time.Hour
)

// holds measures how long permits are held.
type holds struct {
	completions int
	mean        float64 // in nanoseconds
	slotCost    slotCost
	last        time.Duration // instant of the last completion
}

func (h *holds) completed(now, held time.Duration) {
	h.completions++
	h.mean += (float64(held) - h.mean) / float64(min(h.completions, meanWindow))
	h.last = now
}

// rate is how many permits are released per second when all of so many slots are taken; 0 while that is not known.
// fullSince is since when all are taken, negative if they are not.
func (h *holds) rate(now, fullSince time.Duration, slots int) float64 {
	if h.completions < minCompletions {
		return 0
	}
	return h.rateIf(h.mean, now, fullSince, slots)
}

// rateIf is the rate if permits are held for mean nanoseconds, on the mean.
func (h *holds) rateIf(mean float64, now, fullSince time.Duration, slots int) float64 {
	if slots == 0 {
		return 0
	}
	rate := float64(slots) * float64(time.Second) / max(mean, 1)
	// Engines that hang release nothing: a silence while all slots are taken bounds the rate.
	if quiet := now - max(h.last, fullSince); fullSince >= 0 && quiet > 0 {
		rate = min(rate, float64(max(minQuietReleases, slots))/quiet.Seconds())
	}
	return rate
}

// abandoned are releases of permits by requests that gave up: their slots are free again only if the engine lives.
type abandoned struct {
	n    int
	held time.Duration // in all
}

func (a *abandoned) add(held time.Duration) {
	a.n++
	a.held += held
}

// proven counts releases as completions, since their engine has shown that it lives.
func (h *holds) proven(now time.Duration, a *abandoned) {
	for range min(a.n, meanWindow) { // more would change nothing
		h.completed(now, a.held/time.Duration(a.n))
	}
	*a = abandoned{}
}

// drainSlotsLocked is how many slots are expected to be released: those of engines that may hang do not count while there are others.
func (p *Pool) drainSlotsLocked() int {
	if p.responsive > 0 {
		return p.responsive
	}
	return p.limit
}

func (p *Pool) rateLocked(now time.Duration) float64 {
	return p.holds.rate(now, p.fullSince, p.drainSlotsLocked())
}

// expectedLocked returns how long a newcomer without a free slot would wait, and whether that is known.
func (p *Pool) expectedLocked(now time.Duration, claim fairqueue.Claim, x *Exclusions) (time.Duration, bool) {
	return p.untilServedLocked(now, x, p.queue.Ahead(claim), p.waitingAlikeLocked(x))
}

// seconds converts to a duration of at most maxExpectedWait: a rate close to 0 must not overflow.
func seconds(s float64) time.Duration {
	if s >= maxExpectedWait.Seconds() {
		return maxExpectedWait
	}
	return time.Duration(s * float64(time.Second))
}
