package bench

import (
	"math"
	"slices"
	"time"
)

// transit is how long a slot that was free may look free before the request that was given it reaches the engine.
const transit = 10 * time.Millisecond

// nextSlot says from when on a gateway could have had a request on an engine. In a fleet that is full, a request cannot
// begin before some slot frees, however well it is treated; so a request's wait is also counted from there.
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

// leave is what a request leaves to others, when it is asked what could have been its own slot: those that its peers take, who
// are as entitled to one, and those that free while it is on its way to the queue. Without these it is the next slot that frees,
// whoever takes that.
type leave struct {
	peers map[uint64]bool
	way   time.Duration
}

// after is the first moment from at on when a slot was free for the request id: at itself, if one was, and had not been
// given already to another that was on its way.
func (n *nextSlot) after(id uint64, at time.Duration, l leave) time.Duration {
	there := at + l.way
	begun, _ := slices.BinarySearch(n.from, there+1)
	ended, _ := slices.BinarySearch(n.until, there+1)
	taken, first := begun-ended, begun
	for ; first < len(n.from) && n.from[first] <= there+transit; first++ {
		if j := n.jobs[first]; j.id != id && n.sent[j.id] <= there {
			taken++
		}
	}
	if taken < n.slots || ended == len(n.until) {
		return at
	}
	next := ended
	for i := begun; i < len(n.jobs) && n.jobs[i].id != id && next < len(n.until)-1; i++ {
		if j := n.jobs[i]; l.peers[j.id] && (i >= first || n.sent[j.id] > there) { // others are in taken
			next++
		}
	}
	return n.until[next]
}

// passedOver says whether another request got a slot that was free for the request of j, which was due at a moment.
func (n *nextSlot) passedOver(j *job, due time.Duration) bool {
	first, _ := slices.BinarySearch(n.from, n.after(j.id, due, leave{}))
	for i := first; i < len(n.from) && n.from[i] < j.held.from; i++ {
		o := n.jobs[i]
		given := n.from[i] <= due+transit && n.sent[o.id] <= due // before this one came
		if o.id != j.id && !given {
			return true
		}
	}
	return false
}

// fromSlot are the times to the first token, in ms, counted from the next slot that frees. Who is turned away, or gets no
// answer, counts as in toAll.
func (r *result) fromSlot(samples []*sample, l leave) []float64 {
	if r.slots == 0 {
		return nil
	}
	next := r.nextSlot()
	all := r.toAll(samples)
	for i, s := range samples {
		if s.first >= 0 && s.served() {
			all[i] = max(0, ms(s.first-next.after(s.id, s.due, l)))
		}
	}
	return all
}

// way is how long requests take until an engine has them, in a fleet where slots are free: the median.
func (r *result) way(samples []*sample) time.Duration {
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
	next, n := r.nextSlot(), 0
	for _, s := range samples {
		if j := r.job(s); j == nil || j.held.length() == 0 || next.passedOver(j, s.due) {
			n++
		}
	}
	return share(n, len(samples))
}

// turnover is how often a slot frees in the window, as the mean time between two, and how long it is until a slot that
// frees is taken again, 99th percentile: both in ms, of a fleet that is full.
func (r *result) turnover() (every, empty float64) {
	next := r.nextSlot()
	var took []float64
	n := 0
	for i, at := range next.until {
		if !r.trial.window.has(at) {
			continue
		}
		n++
		if again := i + next.slots; again < len(next.from) { // as many are taken as there are slots, and one for each that frees
			took = append(took, max(0, ms(next.from[again]-at)))
		}
	}
	return ms(r.trial.window.length()) / float64(n), quantile(took, 0.99)
}
