package prefixcache

import "time"

// Prefill is the part of an engine that computes prompts, in order of arrival and at one throughput for all of them: with chunked prefill, a
// batch has a budget of tokens for each step, of which the earliest request takes what it can.
type Prefill struct {
	PerToken time.Duration // of each token that is not cached

	free time.Duration // when it has computed all that it has
}

// Add returns when tokens that come at now are computed. Both times are since the same moment, and now never decreases.
func (p *Prefill) Add(now time.Duration, tokens int) time.Duration {
	p.free = max(p.free, now) + time.Duration(tokens)*p.PerToken
	return p.free
}
