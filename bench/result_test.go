package bench

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func at(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// resultOf is a result of samples, and of what engines saw of them.
func resultOf(slots int, t trial, samples []sample, jobs ...job) *result {
	t.timing = timing{at(10), at(1)}
	r := &result{slots: slots, trial: &t, jobs: jobs}
	for _, s := range samples {
		r.samples = append(r.samples, []sample{s})
	}
	r.prepare()
	return r
}

// Goodput counts complete answers only, and only their part within the window.
func TestGoodputCountsCompleteAnswers(t *testing.T) {
	jobs := []job{{id: 1, held: interval{at(0), at(100)}, tokens: 91}, {id: 2, held: interval{at(0), at(100)}, tokens: 91}}
	flows := []flow{{account: "a"}}
	f := func(window interval, other outcome, want float64) {
		t.Helper()
		r := resultOf(2, trial{flows: flows, window: window}, []sample{{id: 1, outcome: completed}, {id: 2, outcome: other}}, jobs...)
		if got := r.goodput(); math.Abs(got-want) > 1e-9 {
			t.Errorf("beside a completed request, one with outcome %d in %v: goodput %v, want %v", other, window, got, want)
		}
	}
	whole := interval{0, at(100)}
	f(whole, completed, 2)
	for _, x := range []outcome{failed, refused, disconnected, expired, unfinished} {
		f(whole, x, 1)
	}
	f(interval{at(50), at(150)}, failed, 0.5)
}

func TestOverdue(t *testing.T) {
	flows := []flow{{account: "hurried", deadline: at(50)}, {account: "patient"}}
	f := func(flow int, arrived, want int) {
		t.Helper()
		r := resultOf(1, trial{flows: flows}, []sample{{id: 1, flow: flow, sent: at(100)}}, job{id: 1, arrived: at(arrived)})
		if got := r.overdueValue(); got != float64(want) {
			t.Errorf("flow %d, arrived at %d: %v overdue, want %d", flow, arrived, got, want)
		}
	}
	f(0, 149, 0)
	f(0, 169, 0) // in transit
	f(0, 200, 1)
	f(1, 900, 0)
	r := resultOf(0, trial{flows: flows}, []sample{{id: 1, sent: at(100)}})
	if got := r.overdueValue(); !math.IsNaN(got) {
		t.Errorf("without simulated engines: %v overdue", got)
	}
}

// Slot time for clients that have left is wasted, and recovery lasts until it ends.
func TestWasteAfterDisconnect(t *testing.T) {
	flows := []flow{{account: "a"}}
	samples := []sample{{id: 1, outcome: disconnected, ended: at(100)}, {id: 2, outcome: disconnected, ended: at(120)},
		{id: 3, outcome: disconnected, ended: at(110)}, {id: 4, outcome: completed, ended: at(500)}, {id: 5, outcome: disconnected, ended: at(115)}}
	jobs := []job{{id: 1, held: interval{at(50), at(150)}}, {id: 2, held: interval{at(130), at(170)}},
		{id: 3, held: interval{at(60), at(105)}}, {id: 4, held: interval{at(60), at(500)}}}
	r := resultOf(4, trial{flows: flows, window: interval{0, at(600)}}, samples, jobs...)
	if got := r.wastedSeconds(); math.Abs(got-0.09) > 1e-9 {
		t.Errorf("%v s were wasted, want 50 ms and 40 ms", got)
	}
	if got := r.drainTime(r.dueInWindow()); math.Abs(got-0.05) > 1e-9 {
		t.Errorf("the engines drained after %v s, want 50 ms", got)
	}
	if got := r.drainTime(r.dueInWindow()[3:]); got != 0 {
		t.Errorf("where no request was on an engine, it took %v s", got)
	}
	if got := resultOf(0, trial{flows: flows}, samples).wastedSeconds(); !math.IsNaN(got) {
		t.Errorf("without simulated engines: %v s wasted", got)
	}
}

// An engine is used again once its slots are full, and stay so for a while.
func TestRefillTime(t *testing.T) {
	f := func(want float64, jobs ...job) {
		t.Helper()
		r := resultOf(2, trial{window: interval{0, at(3000)}}, nil, jobs...)
		if got := r.refillTime(1, 1, at(1000)); math.Abs(got-want) > 0.06 {
			t.Errorf("%v: used again after %v s, want %v", jobs, got, want)
		}
	}
	f(0, job{engine: 1, held: interval{at(1000), at(3000)}})
	f(0.4, job{engine: 1, held: interval{at(1450), at(3000)}})
	f(1, job{engine: 1, held: interval{at(1100), at(1300)}}, job{engine: 1, held: interval{at(2050), at(3000)}})
	f(2, job{engine: 0, held: interval{at(1000), at(3000)}}) // another
}

// Of a client that comes back, the second try counts, and whether any try was answered.
func TestRetries(t *testing.T) {
	no, yes := sample{outcome: refused, retryAfter: at(1000)}, sample{outcome: completed, retryAfter: -1}
	broken, later := sample{outcome: failed, retryAfter: -1}, sample{outcome: refused, retryAfter: at(3000)}
	r := &result{trial: &trial{flows: []flow{{account: "a"}}}, samples: [][]sample{
		{yes}, {no, yes}, {no, no, yes}, {no, later}, {no, broken}, {no}, {},
	}}
	want := figures{"clients": 6, "1st attempt": 1.0 / 6, "2nd attempt": 0.25, "any attempt": 0.5, "attempts": 11.0 / 6,
		"Retry-After p50": 1, "Retry-After p99": 3, "answered p50": 0, "answered max": 0}
	if f := r.retries([]string{"a"}); !reflect.DeepEqual(f, want) {
		t.Errorf("got %v, want %v", f, want)
	}
	if f := r.retries([]string{"b"}); f["clients"] != 0 {
		t.Errorf("of another account: %v", f)
	}
}

// A gateway that refuses quiet accounts must not look quick.
func TestRefusedRequestsCountAsAMinute(t *testing.T) {
	r := resultOf(2, trial{flows: []flow{{account: "a"}}, window: interval{0, at(5000)}}, []sample{
		{id: 1, outcome: completed, first: at(30)}, {id: 2, outcome: refused, first: -1, ended: at(1)},
		{id: 3, outcome: failed, first: at(20)}, {id: 4, outcome: failed, first: -1}, {id: 5, outcome: expired, first: -1},
		{id: 6, outcome: unfinished, first: -1, ended: at(900)}, {id: 7, outcome: unfinished, first: at(40)},
	})
	minute := ms(requestTimeout)
	want := []float64{30, minute, minute, minute, minute, 900, 40}
	if got := r.ttftsWithPenalty(r.dueInWindow()); !reflect.DeepEqual(got, want) {
		t.Errorf("times %v, want %v", got, want)
	}
	if got := r.ttftsFromFreeSlot(r.dueInWindow(), exemptions{}); !reflect.DeepEqual(got, want) {
		t.Errorf("from the next free slot %v, want %v", got, want)
	}
	if got := r.minusEngineTTFT(r.ttftsFromFreeSlot(r.dueInWindow(), exemptions{})); got[0] != 20 || got[1] < minute-20 {
		t.Errorf("waits %v", got)
	}
	if got := r.passedOver(r.dueInWindow()); got != 1 {
		t.Errorf("no request had a slot, and %v were passed over", got)
	}
	if plotted := r.plottedTTFTs(r.dueInWindow()); !math.IsInf(plotted[1], 1) || plotted[0] != 30 {
		t.Errorf("in a chart: %v", plotted)
	}
	x, y := cumulated(quantiles([]float64{30, math.Inf(1), 20, math.Inf(1)}))
	if len(x) != 2 || y[len(y)-1] != 0.5 {
		t.Errorf("where half are refused, the line goes through %v, %v", x, y)
	}
}

// The reason why a threshold cannot be met is given only if it was measured.
func TestWhyTooFine(t *testing.T) {
	for _, want := range []string{"4.00 ms at p99", "allows 2.00 ms more", "every 17.5 ms", "20.0 %", "after 5.00 ms"} {
		if got := strings.ReplaceAll(strings.Join(whyTooFine(4, 17.5, 5, 0.2), " "), "\u00a0", " "); !strings.Contains(got, want) {
			t.Errorf("it does not say %q: %s", want, got)
		}
	}
	if got := whyTooFine(40, 17.5, 5, 0.2); got != nil {
		t.Errorf("the threshold allows 20 ms, and a slot becomes free every 17.5 ms: %q", got)
	}
}
