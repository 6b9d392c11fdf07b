package bench

import (
	"math"
	"slices"
	"time"
)

// maxTransit is how long a slot that was free may look free before the request that was given it reaches the engine.
const maxTransit = 10 * time.Millisecond

// slotTimeline says from when on a gateway could have had a request on an engine. In a fleet that is full, a request cannot
// begin before some slot frees, however well it is treated; so a request's wait is also counted from there.
type slotTimeline struct {
	slots int
	taken []time.Duration // when slots were taken, sorted
	freed []time.Duration // when slots were left, sorted
	sent  map[uint64]time.Duration
	jobs  []job // by from
}

func (r *result) slotTimeline() *slotTimeline {
	n := &slotTimeline{slots: r.slots, sent: map[uint64]time.Duration{}}
	for s := range r.eachSample {
		n.sent[s.id] = s.sent
	}
	for _, j := range r.jobs {
		if j.held.duration() > 0 {
			n.jobs = append(n.jobs, j)
			n.taken = append(n.taken, j.held.start)
			n.freed = append(n.freed, j.held.end)
		}
	}
	slices.Sort(n.freed)
	return n
}

// exemptions is what a request leaves to others, when it is asked what could have been its own slot: those that its peers take, who
// are as entitled to one, and those that free while it is on its way to the queue. Without these it is the next slot that frees,
// whoever takes that.
type exemptions struct {
	peers   map[uint64]bool
	transit time.Duration
}

// firstFree is the first moment from at on when a slot was free for the request id: at itself, if one was, and had not been
// given already to another that was on its way.
func (n *slotTimeline) firstFree(id uint64, at time.Duration, l exemptions) time.Duration {
	there := at + l.transit
	begun, _ := slices.BinarySearch(n.taken, there+1)
	ended, _ := slices.BinarySearch(n.freed, there+1)
	taken, first := begun-ended, begun
	for ; first < len(n.taken) && n.taken[first] <= there+maxTransit; first++ {
		if j := n.jobs[first]; j.id != id && n.sent[j.id] <= there {
			taken++
		}
	}
	if taken < n.slots || ended == len(n.freed) {
		return at
	}
	next := ended
	for i := begun; i < len(n.jobs) && n.jobs[i].id != id && next < len(n.freed)-1; i++ {
		if j := n.jobs[i]; l.peers[j.id] && (i >= first || n.sent[j.id] > there) { // others are in taken
			next++
		}
	}
	return n.freed[next]
}

// passedOver says whether another request got a slot that was free for the request of j, which was due at a moment.
func (n *slotTimeline) passedOver(j *job, due time.Duration) bool {
	first, _ := slices.BinarySearch(n.taken, n.firstFree(j.id, due, exemptions{}))
	for i := first; i < len(n.taken) && n.taken[i] < j.held.start; i++ {
		o := n.jobs[i]
		given := n.taken[i] <= due+maxTransit && n.sent[o.id] <= due // before this one came
		if o.id != j.id && !given {
			return true
		}
	}
	return false
}

// ttftsFromFreeSlot are the times to the first token, in ms, counted from the next slot that frees. Who is turned away, or gets no
// answer, counts as in toAll.
func (r *result) ttftsFromFreeSlot(samples []*sample, l exemptions) []float64 {
	if r.slots == 0 {
		return nil
	}
	next := r.slotTimeline()
	all := r.ttftsWithPenalty(samples)
	for i, s := range samples {
		if s.first >= 0 && s.served() {
			all[i] = max(0, ms(s.first-next.firstFree(s.id, s.due, l)))
		}
	}
	return all
}

// medianTransit is how long requests take until an engine has them, in a fleet where slots are free: the median.
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

// idsOf are those of requests.
func idsOf(samples []*sample) map[uint64]bool {
	all := map[uint64]bool{}
	for _, s := range samples {
		all[s.id] = true
	}
	return all
}

// passedOver is the share of requests that saw a slot go to another first; who never had one was passed over.
func (r *result) passedOver(samples []*sample) float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	next, n := r.slotTimeline(), 0
	for _, s := range samples {
		if j := r.job(s); j == nil || j.held.duration() == 0 || next.passedOver(j, s.due) {
			n++
		}
	}
	return ratio(n, len(samples))
}

// turnover is how often a slot frees in the window, as the mean time between two, and how long it is until a slot that
// frees is taken again, 99th percentile: both in ms, of a fleet that is full.
func (r *result) turnover() (every, empty float64) {
	next := r.slotTimeline()
	var took []float64
	n := 0
	for i, at := range next.freed {
		if !r.trial.window.contains(at) {
			continue
		}
		n++
		if again := i + next.slots; again < len(next.taken) { // as many are taken as there are slots, and one for each that frees
			took = append(took, max(0, ms(next.taken[again]-at)))
		}
	}
	return ms(r.trial.window.duration()) / float64(n), quantile(took, 0.99)
}
