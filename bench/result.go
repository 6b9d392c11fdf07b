package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// dispatchSlack is what a dispatch may seem to be late: the way to the engine, on a busy machine.
const dispatchSlack = 20 * time.Millisecond

// prepare sorts what came and joins both views of it.
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

// eachSample are all requests, each attempt for itself.
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

// job is what the engines saw of a request; nil if it got to none.
func (r *result) job(s *sample) *job {
	if i, ok := r.jobByID[s.id]; ok {
		return &r.jobs[i]
	}
	return nil
}

// slotTime is the time in the window in which a request was worked on: its slot's, or if that cannot be known, what its
// client saw.
func (r *result) slotTime(s *sample) time.Duration {
	if j := r.job(s); j != nil {
		return j.held.intersect(r.trial.window).duration()
	}
	if r.slots > 0 || s.first < 0 {
		return 0
	}
	return interval{s.first, s.ended}.intersect(r.trial.window).duration()
}

// work is what a request that was answered was worth in the window, in seconds of a slot that is never held longer than
// the answer needs; of engines that are not ours, in tokens.
func (r *result) work(s *sample) float64 {
	if s.outcome != completed {
		return 0
	}
	j := r.job(s)
	if j != nil && j.held.duration() > 0 {
		part := float64(j.held.intersect(r.trial.window).duration()) / float64(j.held.duration())
		return part * r.trial.timing.serviceTime(s.answerTokens(r)).Seconds()
	}
	if all := (interval{s.first, s.ended}); r.slots == 0 && all.duration() > 0 {
		return float64(s.tokens) * float64(all.intersect(r.trial.window).duration()) / float64(all.duration())
	}
	return 0
}

// answerTokens is what the answer has, by the engine if it is ours: an event may hold more than one token.
func (s *sample) answerTokens(r *result) int {
	if j := r.job(s); j != nil {
		return j.tokens
	}
	return s.tokens
}

// goodput is the work per second in the window, of these accounts; no account means all.
func (r *result) goodput(accounts ...string) float64 {
	sum := 0.0
	for s := range r.eachSample {
		if len(accounts) == 0 || slices.Contains(accounts, r.account(s)) {
			sum += r.work(s)
		}
	}
	return sum / r.trial.window.duration().Seconds()
}

// service is what each account got in the window, in seconds of slots, whatever came of it.
func (r *result) service(accounts []string) []float64 {
	got := make([]float64, len(accounts))
	for s := range r.eachSample {
		if i := slices.Index(accounts, r.account(s)); i >= 0 {
			got[i] += r.slotTime(s).Seconds()
		}
	}
	return got
}

// tokensServed is what each account got in the window, in tokens, in and out.
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

// ttfts are the times to the first token, in ms, counted from when each request was due. A request that had no answer
// at all counts as long as it lasted: it would be odd if failing, or never ending, made a gateway look quick.
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

// served says whether a request got an answer, or was getting it when the trial ended.
func (s *sample) served() bool { return s.outcome == completed || s.outcome == unfinished }

// ttftsWithPenalty are the times to the first token, in ms, of all who asked, for those who are entitled to an answer. One who is
// refused, or whose request fails, counts as long as anybody waits at all: a gateway that turns everybody away must not look
// quick.
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

// minusEngineTTFT is what is left of times when the engine's own time to the first token is taken away.
func (r *result) minusEngineTTFT(times []float64) []float64 {
	if r.slots == 0 {
		return nil
	}
	for i := range times {
		times[i] = max(0, times[i]-ms(r.trial.timing.ttft))
	}
	return times
}

// waits are what the gateway adds to the times to the first token, in ms: they are less the engine's own.
func (r *result) waits(samples []*sample) []float64 {
	return r.minusEngineTTFT(r.ttfts(samples))
}

// arrivalSlack is how long somebody may seem to have been queued who was refused on arrival, on a busy machine.
const arrivalSlack = 5 * time.Millisecond

// refusalTimes are the times to a refusal, in ms, of those that were refused on arrival: who is pushed out, or has waited
// long enough, was not. A gateway that does not say how long a request was queued is taken to have refused it on
// arrival.
func (r *result) refusalTimes(samples []*sample) []float64 {
	var all []float64
	for _, s := range samples {
		if s.outcome == refused && s.queued < arrivalSlack {
			all = append(all, ms(s.ended-s.due))
		}
	}
	return all
}

// countOutcome is how many samples have a fate.
func countOutcome(samples []*sample, f outcome) int {
	n := 0
	for _, s := range samples {
		if s.outcome == f {
			n++
		}
	}
	return n
}

// overdue is how many requests came to an engine past the deadline that they carried.
func (r *result) overdue() int {
	n := 0
	for s := range r.eachSample {
		deadline := r.trial.flows[s.flow].deadline
		if j := r.job(s); deadline > 0 && j != nil && j.arrived > s.sent+deadline+dispatchSlack {
			n++
		}
	}
	return n
}

// wastedSeconds is the slot time, in seconds, that engines spent on requests whose client had left.
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
