package bench

import (
	"slices"
	"time"
)

// transit is how long a slot that was free may look free before the request that was given it reaches the engine.
const transit = 10 * time.Millisecond

// nextSlot says from when on a gateway could have had a request on an engine. In a fleet that is full, a request cannot
// begin before some slot frees, however well it is treated; so a request's wait is counted from there.
type nextSlot struct {
	slots int
	from  []time.Duration // when slots were taken, sorted
	until []time.Duration // when slots were left, sorted
	sent  map[uint64]time.Duration
	jobs  []job // by from
}

func (r *result) nextSlot() *nextSlot {
	n := &nextSlot{slots: r.slots, sent: map[uint64]time.Duration{}}
	for s := range r.each {
		n.sent[s.id] = s.sent
	}
	for _, j := range r.jobs {
		if j.held.length() > 0 {
			n.jobs = append(n.jobs, j)
			n.from = append(n.from, j.held.from)
			n.until = append(n.until, j.held.until)
		}
	}
	slices.Sort(n.until)
	return n
}

// after is the first moment from at on when a slot was free for the request id: at itself, if one was, and had not been
// given already to another that was on its way. Slots that others took who are as entitled to one are left to them: alike are
// the ids of the requests that are compared.
func (n *nextSlot) after(id uint64, at time.Duration, alike map[uint64]bool) time.Duration {
	begun, _ := slices.BinarySearch(n.from, at+1)
	ended, _ := slices.BinarySearch(n.until, at+1)
	taken := begun - ended
	for i := begun; i < len(n.from) && n.from[i] <= at+transit; i++ {
		if j := n.jobs[i]; j.id != id && n.sent[j.id] <= at {
			taken++
		}
	}
	if taken < n.slots || ended == len(n.until) {
		return at
	}
	next := ended
	for i := begun; i < len(n.jobs) && n.jobs[i].id != id && next < len(n.until)-1; i++ {
		if alike[n.jobs[i].id] {
			next++
		}
	}
	return n.until[next]
}

// fromSlot are the times to the first token, in ms, counted from the next slot that frees.
func (r *result) fromSlot(samples []*sample) []float64 {
	if r.slots == 0 {
		return nil
	}
	next := r.nextSlot()
	alike := map[uint64]bool{}
	for _, s := range samples {
		alike[s.id] = true
	}
	var all []float64
	for _, s := range samples {
		switch {
		case s.first >= 0:
			all = append(all, max(0, ms(s.first-next.after(s.id, s.due, alike))))
		case s.fate == failed || s.fate == unfinished:
			all = append(all, ms(s.ended-s.due))
		}
	}
	return all
}
