package bench

import (
	"math"
	"slices"
	"time"
)

// maxTransit is how long a slot may look free after it was given to a request that has yet to reach the engine.
const maxTransit = 10 * time.Millisecond

// slotTimeline says from when on a gateway could have had a request on an engine. While all slots are taken no request can
// begin before one becomes free, so a request's wait is also counted from there.
type slotTimeline struct {
	slots int
	taken []time.Duration // when slots were taken, sorted
	freed []time.Duration // when slots became free, sorted
	sent  map[uint64]time.Duration
	jobs  []job // by taken
}

func (r *result) slotTimeline() *slotTimeline {
	t := &slotTimeline{slots: r.slots, sent: map[uint64]time.Duration{}}
	for s := range r.eachSample {
		t.sent[s.id] = s.sent
	}
	for _, j := range r.jobs {
		if j.held.duration() > 0 {
			t.jobs = append(t.jobs, j)
			t.taken = append(t.taken, j.held.start)
			t.freed = append(t.freed, j.held.end)
		}
	}
	slices.Sort(t.freed)
	return t
}

// exemptions are slots that do not count as free for a request: those that its peers take, who are entitled to them as well,
// and those that become free while the request is in transit to the queue. Without exemptions, it is the next slot that becomes
// free, whichever request takes it.
type exemptions struct {
	peers   map[uint64]bool
	transit time.Duration
}

// firstFree is the first moment from at on when a slot was free for the request id: at itself, if a slot was free then and had
// not been given to another request in transit.
func (t *slotTimeline) firstFree(id uint64, at time.Duration, e exemptions) time.Duration {
	arrived := at + e.transit
	begun, _ := slices.BinarySearch(t.taken, arrived+1)
	ended, _ := slices.BinarySearch(t.freed, arrived+1)
	taken, first := begun-ended, begun
	for ; first < len(t.taken) && t.taken[first] <= arrived+maxTransit; first++ {
		if j := t.jobs[first]; j.id != id && t.sent[j.id] <= arrived {
			taken++
		}
	}
	if taken < t.slots || ended == len(t.freed) {
		return at
	}
	next := ended
	for i := begun; i < len(t.jobs) && t.jobs[i].id != id && next < len(t.freed)-1; i++ {
		if j := t.jobs[i]; e.peers[j.id] && (i >= first || t.sent[j.id] > arrived) { // the others are in taken
			next++
		}
	}
	return t.freed[next]
}

// passedOver reports whether another request got a slot that was free for the request of j, which was due at a moment.
func (t *slotTimeline) passedOver(j *job, due time.Duration) bool {
	first, _ := slices.BinarySearch(t.taken, t.firstFree(j.id, due, exemptions{}))
	for i := first; i < len(t.taken) && t.taken[i] < j.held.start; i++ {
		o := t.jobs[i]
		givenBefore := t.taken[i] <= due+maxTransit && t.sent[o.id] <= due
		if o.id != j.id && !givenBefore {
			return true
		}
	}
	return false
}

// ttftsFromFreeSlot are the times to first token, in ms, counted from the next slot that becomes free. Requests without an
// answer count as in ttftsWithPenalty.
func (r *result) ttftsFromFreeSlot(samples []*sample, e exemptions) []float64 {
	if r.slots == 0 {
		return nil
	}
	timeline := r.slotTimeline()
	all := r.ttftsWithPenalty(samples)
	for i, s := range samples {
		if s.first >= 0 && s.served() {
			all[i] = max(0, ms(s.first-timeline.firstFree(s.id, s.due, e)))
		}
	}
	return all
}

// medianTransit is how long requests take until an engine has them, where slots are free.
func (r *result) medianTransit(samples []*sample) time.Duration {
	var all []float64
	for _, s := range samples {
		if j := r.job(s); j != nil {
			all = append(all, ms(j.arrived-s.due))
		}
	}
	if len(all) == 0 {
		return 0
	}
	return time.Duration(quantile(all, 0.5) * float64(time.Millisecond))
}

func idsOf(samples []*sample) map[uint64]bool {
	all := map[uint64]bool{}
	for _, s := range samples {
		all[s.id] = true
	}
	return all
}

// passedOver is the share of requests that saw a slot go to another request first, or never had one.
func (r *result) passedOver(samples []*sample) float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	timeline, n := r.slotTimeline(), 0
	for _, s := range samples {
		if j := r.job(s); j == nil || j.held.duration() == 0 || timeline.passedOver(j, s.due) {
			n++
		}
	}
	return ratio(n, len(samples))
}

// turnover is the mean interval in which a slot becomes free within the window, and how long a free slot stays empty, 99th
// percentile: both in ms, where all slots are in use.
func (r *result) turnover() (interval, refill float64) {
	timeline := r.slotTimeline()
	var empty []float64
	n := 0
	for i, at := range timeline.freed {
		if !r.trial.window.contains(at) {
			continue
		}
		n++
		// As many are taken as there are slots, and then one for each that becomes free.
		if again := i + timeline.slots; again < len(timeline.taken) {
			empty = append(empty, max(0, ms(timeline.taken[again]-at)))
		}
	}
	return ms(r.trial.window.duration()) / float64(n), quantile(empty, 0.99)
}
