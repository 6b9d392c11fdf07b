package roundtrip_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/internal/testkit"
	"colonnade/roundtrip"
)

const ms = time.Millisecond

// start is an arbitrary moment.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// observed is an estimator and its clock.
type observed struct {
	t *testing.T
	roundtrip.Estimator
	now time.Time
}

func newObserved(t *testing.T) *observed { return &observed{t: t, now: start} }

// each observes n measurements, one every so often.
func (o *observed) each(n int, every time.Duration, measured func(i int) time.Duration) {
	for i := range n {
		o.now = o.now.Add(every)
		o.Observe(measured(i), o.now)
	}
}

// is returns a measurement that does not change.
func is(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// want expects an estimate, to a tolerance.
func (o *observed) want(when string, want, tolerance time.Duration) {
	o.t.Helper()
	if got, ok := o.Estimate(); !ok || (got-want).Abs() > tolerance {
		o.t.Errorf("%s: the estimate is %s, %v, want %s to %s", when, got, ok, want, tolerance)
	}
}

func TestNothingIsKnownBeforeTheFirstMeasurement(t *testing.T) {
	o := newObserved(t)
	if got, ok := o.Estimate(); ok || got != 0 || !o.Latest().IsZero() {
		t.Errorf("the estimate is %s, %v", got, ok)
	}
	o.Observe(-ms, o.now)
	if _, ok := o.Estimate(); ok {
		t.Error("a negative measurement counts")
	}
	o.each(1, time.Second, is(8*ms))
	o.want("after the first", 8*ms, 0)
	if !o.Latest().Equal(o.now) {
		t.Errorf("the latest is of %s, want %s", o.Latest(), o.now)
	}
}

// Only the least counts of what varies by queues and a busy processor.
func TestLeastCounts(t *testing.T) {
	o := newObserved(t)
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	o.each(1000, 10*ms, func(i int) time.Duration {
		if i%50 == 0 {
			return 8 * ms
		}
		return 8*ms + time.Duration(random.ExpFloat64()*20*float64(ms))
	})
	o.want("of many that are longer", 8*ms, 0)
	o.each(20, 100*ms, is(300*ms))
	o.want("after two seconds of long ones", 8*ms, 0)
}

// A place that is nearer than it was is so at once, and one that is farther after the window has passed, bit by bit.
func TestFollowsAChangedRoute(t *testing.T) {
	o := newObserved(t)
	o.each(100, 100*ms, is(80*ms))
	o.each(1, 100*ms, is(20*ms))
	o.want("nearer", 20*ms, 0)
	o.each(85, 100*ms, is(80*ms))
	o.want("farther for less than the window", 20*ms, 0)
	o.each(20, 100*ms, is(80*ms))
	if got, _ := o.Estimate(); got <= 21*ms || got >= 60*ms {
		t.Errorf("just after the window, the estimate is %s: it jumps, or does not move", got)
	}
	o.each(200, 100*ms, is(80*ms))
	o.want("farther", 80*ms, ms)
}

// An answer that was delayed does not decide alone, however rarely the place answers.
func TestOneSlowAnswerDoesNotDecide(t *testing.T) {
	o := newObserved(t)
	o.each(5, 30*time.Second, is(8*ms))
	o.each(1, 30*time.Second, is(108*ms))
	o.want("after one slow answer", 58*ms, 0)
	o.each(1, 30*time.Second, is(8*ms))
	o.want("and a quick one", 8*ms, 0)
}

// An estimate stays when nothing more is measured.
func TestEstimateStays(t *testing.T) {
	o := newObserved(t)
	o.each(3, time.Second, is(8*ms))
	o.now = o.now.Add(time.Hour)
	o.want("an hour later", 8*ms, 0)
	o.each(1, ms, is(10*ms))
	o.want("the first after an hour", 9*ms, 0)
}

// Goroutines observe in another order than they measured in.
func TestTimesOutOfOrder(t *testing.T) {
	o := newObserved(t)
	o.each(50, 100*ms, is(8*ms))
	for _, back := range []time.Duration{ms, 900 * ms, 4 * time.Second, time.Hour} {
		o.Observe(30*ms, o.now.Add(-back))
	}
	o.want("after late ones", 8*ms, 0)
	o.Observe(5*ms, o.now.Add(-time.Second))
	o.want("after a late one that is less", 5*ms, 0)

	o = newObserved(t)
	o.each(1, 0, is(8*ms))
	o.Observe(30*ms, o.now.Add(-time.Hour)) // in the place of the first
	o.each(1, time.Second, is(30*ms))
	o.want("after one of an hour ago", 8*ms, 0)
}

// The estimate is never above the least measurement of the last nine seconds, nor below the least of all.
func TestEstimateIsBounded(t *testing.T) {
	o := newObserved(t)
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	type measurement struct {
		at time.Time
		d  time.Duration
	}
	var all []measurement
	leastOfAll := time.Hour
	for range 5000 {
		o.now = o.now.Add(time.Duration(random.ExpFloat64() * float64(random.Int64N(int64(2*time.Second)))))
		d := time.Duration(random.Int64N(int64(100 * ms)))
		o.Observe(d, o.now)
		all = append(all, measurement{o.now, d})
		leastOfAll = min(leastOfAll, d)
		for o.now.Sub(all[0].at) > 9*time.Second {
			all = all[1:]
		}
		least := d
		for _, m := range all {
			least = min(least, m.d)
		}
		if got, _ := o.Estimate(); got > least || got < leastOfAll {
			t.Fatalf("the estimate is %s, with %s the least in nine seconds and %s the least of all", got, least, leastOfAll)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	var e roundtrip.Estimator
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(ms)
		e.Observe(8*ms, now)
	}
}
