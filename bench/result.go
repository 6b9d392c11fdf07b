package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// dispatchSlack is how late a dispatch may seem: the time to the engine, on a busy machine.
const dispatchSlack = 20 * time.Millisecond

// prepare sorts the jobs and joins both views of the requests.
func (r *result) prepare() {
	slices.SortFunc(r.jobs, func(a, b job) int { return cmp.Compare(a.held.start, b.held.start) })
	r.jobByID = make(map[uint64]int, len(r.jobs))
	for i, j := range r.jobs {
		r.jobByID[j.id] = i
	}
	var late []float64
	for s := range r.eachSample {
		late = append(late, ms(s.sent-s.due))
	}
	r.generatorDelay = quantile(late, 0.99)
}

// eachSample yields all attempts of all requests.
func (r *result) eachSample(yield func(*sample) bool) {
	for i := range r.samples {
		for k := range r.samples[i] {
			if !yield(&r.samples[i][k]) {
				return
			}
		}
	}
}

func (r *result) account(s *sample) string { return r.trial.flows[s.flow].account }

// job is what the engines saw of a request; nil if it reached none.
func (r *result) job(s *sample) *job {
	if i, ok := r.jobByID[s.id]; ok {
		return &r.jobs[i]
	}
	return nil
}

// slotTime is how long a request held a slot within the window; where that is unknown, how long its client was being answered.
func (r *result) slotTime(s *sample) time.Duration {
	if j := r.job(s); j != nil {
		return j.held.intersect(r.trial.window).duration()
	}
	if r.slots > 0 || s.first < 0 {
		return 0
	}
	return interval{s.first, s.ended}.intersect(r.trial.window).duration()
}

// work is the worth of a completed request within the window, in seconds of a slot that is held no longer than the answer
// needs; where engines are not simulated, in events.
func (r *result) work(s *sample) float64 {
	if s.outcome != completed {
		return 0
	}
	j := r.job(s)
	if j != nil && j.held.duration() > 0 {
		part := float64(j.held.intersect(r.trial.window).duration()) / float64(j.held.duration())
		return part * r.trial.timing.serviceTime(j.tokens).Seconds()
	}
	if all := (interval{s.first, s.ended}); r.slots == 0 && all.duration() > 0 {
		return float64(s.tokens) * float64(all.intersect(r.trial.window).duration()) / float64(all.duration())
	}
	return 0
}

// goodput is the work per second within the window, of these accounts; no account means all.
func (r *result) goodput(accounts ...string) float64 {
	sum := 0.0
	for s := range r.eachSample {
		if len(accounts) == 0 || slices.Contains(accounts, r.account(s)) {
			sum += r.work(s)
		}
	}
	return sum / r.trial.window.duration().Seconds()
}

// service is the slot time of each account within the window, in seconds, whatever the outcome.
func (r *result) service(accounts []string) []float64 {
	got := make([]float64, len(accounts))
	for s := range r.eachSample {
		if i := slices.Index(accounts, r.account(s)); i >= 0 {
			got[i] += r.slotTime(s).Seconds()
		}
	}
	return got
}

// tokensServed is what each account got within the window, in tokens of input and output.
func (r *result) tokensServed(accounts []string) []float64 {
	got := make([]float64, len(accounts))
	for s := range r.eachSample {
		i := slices.Index(accounts, r.account(s))
		if i < 0 {
			continue
		}
		if j := r.job(s); j != nil && j.held.duration() > 0 {
			part := float64(j.held.intersect(r.trial.window).duration()) / float64(j.held.duration())
			got[i] += part * float64(j.tokens+j.input)
		} else if r.slots == 0 && r.trial.window.contains(s.ended) {
			got[i] += float64(s.tokens + r.trial.flows[s.flow].input)
		}
	}
	return got
}

// slotShare is the slot time of accounts within the window, relative to all slots.
func (r *result) slotShare(accounts []string) float64 {
	sum := 0.0
	for _, x := range r.service(accounts) {
		sum += x
	}
	return sum / (float64(r.slots) * r.trial.window.duration().Seconds())
}

// meanSlotShare is the mean part of all slots that each of these accounts had; NaN where the slots are unknown.
func (r *result) meanSlotShare(accounts []string) float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	return r.slotShare(accounts) / float64(len(accounts))
}

// dueInWindow are the requests of these accounts that were due in the window; no account means all.
func (r *result) dueInWindow(accounts ...string) []*sample {
	var found []*sample
	for s := range r.eachSample {
		if r.trial.window.contains(s.due) && (len(accounts) == 0 || slices.Contains(accounts, r.account(s))) {
			found = append(found, s)
		}
	}
	return found
}

// ttfts are the times to first token since each request was due, in ms. A request that failed, or never ended, counts for
// as long as it lasted, so that such requests do not make a gateway look quick.
func (r *result) ttfts(samples []*sample) []float64 {
	var all []float64
	for _, s := range samples {
		switch {
		case s.first >= 0:
			all = append(all, ms(s.ttft()))
		case s.outcome == failed || s.outcome == unfinished:
			all = append(all, ms(s.ended-s.due))
		}
	}
	return all
}

// ttftsWithPenalty are the times to first token, in ms, of accounts that are entitled to an answer. A refused or failed
// request counts as the longest wait there is, so that a gateway that refuses everything does not look quick.
func (r *result) ttftsWithPenalty(samples []*sample) []float64 {
	all := make([]float64, len(samples))
	for i, s := range samples {
		switch {
		case !s.served():
			all[i] = ms(requestTimeout)
		case s.first >= 0:
			all[i] = ms(s.ttft())
		default:
			all[i] = ms(s.ended - s.due)
		}
	}
	return all
}

// minusEngineTTFT takes the engine's own time to first token away from times; nil where it is unknown.
func (r *result) minusEngineTTFT(times []float64) []float64 {
	if r.slots == 0 {
		return nil
	}
	for i := range times {
		times[i] = max(0, times[i]-ms(r.trial.timing.ttft))
	}
	return times
}

// waits are what the gateway adds to the times to first token, in ms.
func (r *result) waits(samples []*sample) []float64 {
	return r.minusEngineTTFT(r.ttfts(samples))
}

// arrivalSlack is how long a request that is refused on arrival may seem to have been queued, on a busy machine.
const arrivalSlack = 5 * time.Millisecond

// refusalTimes are the times to a refusal on arrival, in ms: not of requests that were refused after waiting. Where a gateway
// does not say for how long a request was queued, the refusal counts as one on arrival.
func (r *result) refusalTimes(samples []*sample) []float64 {
	var all []float64
	for _, s := range samples {
		if s.outcome == refused && s.queued < arrivalSlack {
			all = append(all, ms(s.ended-s.due))
		}
	}
	return all
}

// countOutcome is the number of samples with an outcome.
func countOutcome(samples []*sample, o outcome) int {
	n := 0
	for _, s := range samples {
		if s.outcome == o {
			n++
		}
	}
	return n
}

// leakedValue is the number of leaked permits; NaN where it is unknown.
func (r *result) leakedValue() float64 {
	if r.leaked < 0 {
		return math.NaN()
	}
	return float64(r.leaked)
}

// overdueValue is the number of requests that reached an engine past their deadline; NaN where it is unknown.
func (r *result) overdueValue() float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	n := 0
	for s := range r.eachSample {
		deadline := r.trial.flows[s.flow].deadline
		if j := r.job(s); deadline > 0 && j != nil && j.arrived > s.sent+deadline+dispatchSlack {
			n++
		}
	}
	return float64(n)
}

// wastedSeconds is the slot time that engines spent on requests whose client had left; NaN where it is unknown.
func (r *result) wastedSeconds() float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	sum := 0.0
	for s := range r.eachSample {
		if j := r.job(s); j != nil && s.outcome == disconnected {
			sum += max(0, j.held.end-max(j.held.start, s.ended)).Seconds()
		}
	}
	return sum
}
