package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// slack is what a dispatch may seem to be late: the way to the engine, on a busy machine.
const slack = 20 * time.Millisecond

// prepare sorts what came and joins both views of it.
func (r *result) prepare() {
	slices.SortFunc(r.jobs, func(a, b job) int { return cmp.Compare(a.held.from, b.held.from) })
	r.ofID = make(map[uint64]int, len(r.jobs))
	for i, j := range r.jobs {
		r.ofID[j.id] = i
	}
	var late []float64
	for s := range r.each {
		late = append(late, ms(s.sent-s.due))
	}
	r.late = quantile(late, 0.99)
}

// each are all requests, each attempt for itself.
func (r *result) each(yield func(*sample) bool) {
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
	if i, ok := r.ofID[s.id]; ok {
		return &r.jobs[i]
	}
	return nil
}

// busy is the time in the window in which a request was worked on: its slot's, or if that cannot be known, what its
// client saw.
func (r *result) busy(s *sample) time.Duration {
	if j := r.job(s); j != nil {
		return j.held.and(r.trial.window).length()
	}
	if r.slots > 0 || s.first < 0 {
		return 0
	}
	return span{s.first, s.ended}.and(r.trial.window).length()
}

// work is what a request that was answered was worth in the window, in seconds of a slot that is never held longer than
// the answer needs; of engines that are not ours, in tokens.
func (r *result) work(s *sample) float64 {
	if s.fate != answered {
		return 0
	}
	j := r.job(s)
	if j != nil && j.held.length() > 0 {
		part := float64(j.held.and(r.trial.window).length()) / float64(j.held.length())
		return part * r.trial.pace.holds(s.tokensOr(r)).Seconds()
	}
	if all := (span{s.first, s.ended}); r.slots == 0 && all.length() > 0 {
		return float64(s.tokens) * float64(all.and(r.trial.window).length()) / float64(all.length())
	}
	return 0
}

// tokensOr is what the answer has, by the engine if it is ours: an event may hold more than one token.
func (s *sample) tokensOr(r *result) int {
	if j := r.job(s); j != nil {
		return j.tokens
	}
	return s.tokens
}

// goodput is the work per second in the window, of these accounts; no account means all.
func (r *result) goodput(accounts ...string) float64 {
	sum := 0.0
	for s := range r.each {
		if len(accounts) == 0 || slices.Contains(accounts, r.account(s)) {
			sum += r.work(s)
		}
	}
	return sum / r.trial.window.length().Seconds()
}

// service is what each account got in the window, in seconds of slots, whatever came of it.
func (r *result) service(accounts []string) []float64 {
	got := make([]float64, len(accounts))
	for s := range r.each {
		if i := slices.Index(accounts, r.account(s)); i >= 0 {
			got[i] += r.busy(s).Seconds()
		}
	}
	return got
}

// tokens is what each account got in the window, in tokens, in and out.
func (r *result) tokens(accounts []string) []float64 {
	got := make([]float64, len(accounts))
	for s := range r.each {
		i := slices.Index(accounts, r.account(s))
		if i < 0 {
			continue
		}
		if j := r.job(s); j != nil && j.held.length() > 0 {
			part := float64(j.held.and(r.trial.window).length()) / float64(j.held.length())
			got[i] += part * float64(j.tokens+j.input)
		} else if r.slots == 0 && r.trial.window.has(s.ended) {
			got[i] += float64(s.tokens + r.trial.flows[s.flow].input)
		}
	}
	return got
}

// of are the requests of these accounts that were due in the window; no account means all.
func (r *result) of(accounts ...string) []*sample {
	var found []*sample
	for s := range r.each {
		if r.trial.window.has(s.due) && (len(accounts) == 0 || slices.Contains(accounts, r.account(s))) {
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
		case s.fate == failed || s.fate == unfinished:
			all = append(all, ms(s.ended-s.due))
		}
	}
	return all
}

// served says whether a request got an answer, or was getting it when the trial ended.
func (s *sample) served() bool { return s.fate == answered || s.fate == unfinished }

// toAll are the times to the first token, in ms, of all who asked, for those who are entitled to an answer. One who is
// refused, or whose request fails, counts as long as anybody waits at all: a gateway that turns everybody away must not look
// quick.
func (r *result) toAll(samples []*sample) []float64 {
	all := make([]float64, len(samples))
	for i, s := range samples {
		switch {
		case !s.served():
			all[i] = ms(patient)
		case s.first >= 0:
			all[i] = ms(s.ttft())
		default:
			all[i] = ms(s.ended - s.due)
		}
	}
	return all
}

// less is what is left of times when the engine's own time to the first token is taken away.
func (r *result) less(times []float64) []float64 {
	if r.slots == 0 {
		return nil
	}
	for i := range times {
		times[i] = max(0, times[i]-ms(r.trial.pace.ttft))
	}
	return times
}

// waits are what the gateway adds to the times to the first token, in ms: they are less the engine's own.
func (r *result) waits(samples []*sample) []float64 {
	return r.less(r.ttfts(samples))
}

// onArrival is how long somebody may seem to have been queued who was refused on arrival, on a busy machine.
const onArrival = 5 * time.Millisecond

// refusals are the times to a refusal, in ms, of those that were refused on arrival: who is pushed out, or has waited
// long enough, was not. A gateway that does not say how long a request was queued is taken to have refused it on
// arrival.
func (r *result) refusals(samples []*sample) []float64 {
	var all []float64
	for _, s := range samples {
		if s.fate == refused && s.queued < onArrival {
			all = append(all, ms(s.ended-s.due))
		}
	}
	return all
}

// count is how many samples have a fate.
func count(samples []*sample, f fate) int {
	n := 0
	for _, s := range samples {
		if s.fate == f {
			n++
		}
	}
	return n
}

// overdue is how many requests came to an engine past the deadline that they carried.
func (r *result) overdue() int {
	n := 0
	for s := range r.each {
		deadline := r.trial.flows[s.flow].deadline
		if j := r.job(s); deadline > 0 && j != nil && j.arrived > s.sent+deadline+slack {
			n++
		}
	}
	return n
}

// wasted is the slot time, in seconds, that engines spent on requests whose client had left.
func (r *result) wasted() float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	sum := 0.0
	for s := range r.each {
		if j := r.job(s); j != nil && s.fate == left {
			sum += max(0, j.held.until-max(j.held.from, s.ended)).Seconds()
		}
	}
	return sum
}
