package bench

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func at(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }

// seenBy is a result of one flow for each account, from samples and what the engines saw of them.
func seenBy(slots int, t trial, samples []sample, jobs ...job) *result {
	t.timing = timing{at(10), at(1)}
	r := &result{slots: slots, trial: &t, jobs: jobs}
	for _, s := range samples {
		r.samples = append(r.samples, []sample{s})
	}
	r.prepare()
	return r
}

// Only work that reached a client as a whole is goodput, and only what lies in the window.
func TestGoodputIsOfAnswers(t *testing.T) {
	jobs := []job{{id: 1, held: interval{at(0), at(100)}, tokens: 91}, {id: 2, held: interval{at(0), at(100)}, tokens: 91}}
	flows := []flow{{account: "a"}}
	f := func(window interval, fate outcome, want float64) {
		t.Helper()
		r := seenBy(2, trial{flows: flows, window: window}, []sample{{id: 1, outcome: completed}, {id: 2, outcome: fate}}, jobs...)
		if got := r.goodput(); math.Abs(got-want) > 1e-9 {
			t.Errorf("beside one that was answered, one with fate %d in %v: goodput %v, want %v", fate, window, got, want)
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
		r := seenBy(1, trial{flows: flows}, []sample{{id: 1, flow: flow, sent: at(100)}}, job{id: 1, arrived: at(arrived)})
		if got := r.overdueValue(); got != float64(want) {
			t.Errorf("flow %d, at the engine at %d: %v overdue, want %d", flow, arrived, got, want)
		}
	}
	f(0, 149, 0)
	f(0, 169, 0) // on the way
	f(0, 200, 1)
	f(1, 900, 0)
	r := seenBy(0, trial{flows: flows}, []sample{{id: 1, sent: at(100)}})
	if got := r.overdueValue(); !math.IsNaN(got) {
		t.Errorf("of engines that are not ours: %v overdue", got)
	}
}

// What engines do for clients that have left is waste, and until they are rid of it nobody has recovered.
func TestWhatIsLeftOfThoseThatLeft(t *testing.T) {
	flows := []flow{{account: "a"}}
	samples := []sample{{id: 1, outcome: disconnected, ended: at(100)}, {id: 2, outcome: disconnected, ended: at(120)},
		{id: 3, outcome: disconnected, ended: at(110)}, {id: 4, outcome: completed, ended: at(500)}, {id: 5, outcome: disconnected, ended: at(115)}}
	jobs := []job{{id: 1, held: interval{at(50), at(150)}}, {id: 2, held: interval{at(130), at(170)}},
		{id: 3, held: interval{at(60), at(105)}}, {id: 4, held: interval{at(60), at(500)}}}
	r := seenBy(4, trial{flows: flows, window: interval{0, at(600)}}, samples, jobs...)
	if got := r.wastedSeconds(); math.Abs(got-0.09) > 1e-9 {
		t.Errorf("%v s were wasted, want 50 ms and 40 ms", got)
	}
	if got := r.drainTime(r.dueInWindow()); math.Abs(got-0.05) > 1e-9 {
		t.Errorf("the engines were rid of them after %v s, want 50 ms", got)
	}
	if got := r.drainTime(r.dueInWindow()[3:]); got != 0 {
		t.Errorf("where none was on an engine it took %v s", got)
	}
	if got := seenBy(0, trial{flows: flows}, samples).wastedSeconds(); !math.IsNaN(got) {
		t.Errorf("of engines that are not ours: %v s wasted", got)
	}
}

// An engine is used again when its slots are full, and stay so for a while.
func TestRefilled(t *testing.T) {
	f := func(want float64, jobs ...job) {
		t.Helper()
		r := seenBy(2, trial{window: interval{0, at(3000)}}, nil, jobs...)
		if got := r.refillTime(1, 1, at(1000)); math.Abs(got-want) > 0.06 {
			t.Errorf("%v: used again after %v s, want %v", jobs, got, want)
		}
	}
	f(0, job{engine: 1, held: interval{at(1000), at(3000)}})
	f(0.4, job{engine: 1, held: interval{at(1450), at(3000)}})
	f(1, job{engine: 1, held: interval{at(1100), at(1300)}}, job{engine: 1, held: interval{at(2050), at(3000)}})
	f(2, job{engine: 0, held: interval{at(1000), at(3000)}}) // another
}

// Who comes back counts by what came of the next try, and of no other.
func TestReturns(t *testing.T) {
	no, yes := sample{outcome: refused, retryAfter: at(1000)}, sample{outcome: completed, retryAfter: -1}
	broken := sample{outcome: failed, retryAfter: -1}
	r := &result{trial: &trial{flows: []flow{{account: "a"}}}, samples: [][]sample{
		{yes}, {no, yes}, {no, no, yes}, {no, no}, {no, broken}, {no}, {},
	}}
	f := r.retryStats([]string{"a"})
	if f.clients != 6 || f.first != 1.0/6 || f.second != 0.25 || f.any != 0.5 || f.tries != 11.0/6 || len(f.retryAfters) != 7 {
		t.Errorf("got %+v", f)
	}
	if f := r.retryStats([]string{"b"}); f.clients != 0 {
		t.Errorf("of somebody else: %+v", f)
	}
}

// A gateway that turns quiet accounts away must not look quick.
func TestWhoIsTurnedAwayIsNotServedQuickly(t *testing.T) {
	r := seenBy(2, trial{flows: []flow{{account: "a"}}, window: interval{0, at(5000)}}, []sample{
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
		t.Errorf("from the next slot %v, want %v", got, want)
	}
	if got := r.minusEngineTTFT(r.ttftsFromFreeSlot(r.dueInWindow(), exemptions{})); got[0] != 20 || got[1] < minute-20 {
		t.Errorf("waits %v", got)
	}
	if got := r.passedOver(r.dueInWindow()); got != 1 {
		t.Errorf("none had a slot, and %v were passed over", got)
	}
	if plotted := r.plottedTTFTs(r.dueInWindow()); !math.IsInf(plotted[1], 1) || plotted[0] != 30 {
		t.Errorf("in a plot: %v", plotted)
	}
	x, y := cumulated(Quantiles([]float64{30, math.Inf(1), 20, math.Inf(1)}), false)
	if len(x) != 4 || y[len(y)-1] != 0.5 {
		t.Errorf("where half are turned away, the line goes through %v, %v", x, y)
	}
}

// Two slots, of which one frees at 20, and is taken at once, and the other at 30, and is taken after 2 ms.
func TestPassedOver(t *testing.T) {
	jobs := []job{{id: 1, held: interval{at(0), at(20)}}, {id: 2, held: interval{at(0), at(30)}},
		{id: 3, held: interval{at(20), at(60)}}, {id: 4, held: interval{at(32), at(62)}}, {id: 5, held: interval{at(60), at(90)}}}
	f := func(id uint64, due int, other uint64, sent int, want bool) {
		t.Helper()
		samples := []sample{{id: other, sent: at(sent)}, {id: id, sent: at(due), due: at(due)}}
		r := seenBy(2, trial{flows: []flow{{account: "a"}}}, samples, jobs...)
		if got := r.slotTimeline().passedOver(r.job(&r.samples[1][0]), at(due)); got != want {
			t.Errorf("request %d, due at %d, beside request %d, sent at %d: passed over is %v", id, due, other, sent, got)
		}
	}
	f(4, 5, 3, 6, true)    // the third came later, and has the slot that freed at 20
	f(4, 15, 3, 14, false) // the third was before it, and may have been given that slot already
	f(4, 25, 3, 6, false)  // it has the next
	f(5, 35, 4, 30, false)
	f(5, 25, 4, 26, true) // the fourth came between
	r := seenBy(2, trial{window: interval{0, at(50)}}, nil, jobs...)
	if every, empty := r.turnover(); every != 25 || empty != 2 {
		t.Errorf("a slot frees every %v ms and is empty for %v ms, want 25 and 2", every, empty)
	}
}

// A mark that cannot be reached says why, and only if it was measured so.
func TestTooFine(t *testing.T) {
	for _, want := range []string{"4.00 ms at p99", "allows 2.00 ms more", "every 17.5 ms", "20.0 %", "after 5.00 ms"} {
		if got := strings.ReplaceAll(whyTooFine(4, 17.5, 5, 0.2), "\u00a0", " "); !strings.Contains(got, want) {
			t.Errorf("it does not say %q: %s", want, got)
		}
	}
	if got := whyTooFine(40, 17.5, 5, 0.2); got != "" {
		t.Errorf("the mark allows 20 ms, and a slot frees every 17.5: %s", got)
	}
}
