package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

var chat = Work{Model: "m", Path: "/v1/chat/completions", Streamed: true, Input: 400}

// after returns what is known once n samples were taken a millisecond apart, and when the last was.
func (s minTTFT) after(now time.Time, n int, w Work, took time.Duration) (minTTFT, time.Time) {
	for range n {
		now = now.Add(time.Millisecond)
		s = s.add(now, &w, took)
	}
	return s, now
}

func TestSoonest(t *testing.T) {
	now := time.Now()
	want := func(s minTTFT, at time.Duration, least time.Duration, why string) {
		t.Helper()
		if got := s.bound(now.Add(at), &chat); got != least {
			t.Errorf("%s: %v, want %v", why, got, least)
		}
	}
	var s minTTFT
	want(s, 0, 0, "nothing known")
	s, now = s.after(now, minSamples-1, chat, 50*time.Millisecond)
	want(s, 0, 0, "too few samples")
	s, now = s.after(now, 1, chat, 80*time.Millisecond)
	want(s, 0, 50*time.Millisecond, "the least counts")
	s, now = s.after(now, 1, chat, 20*time.Millisecond)
	want(s, 0, 20*time.Millisecond, "one that is faster is noticed at once")

	s, now = s.after(now.Add(windowLen), 1, chat, 70*time.Millisecond)
	want(s, 0, 20*time.Millisecond, "samples of the older half count")
	want(s, windowLen, 0, "one sample is left")
	s, now = s.after(now, minSamples-1, chat, 60*time.Millisecond)
	want(s, 0, 20*time.Millisecond, "still")
	want(s, windowLen, 60*time.Millisecond, "one that has become slower is noticed")
	want(s, 2*windowLen, 0, "nothing is left of it")
	s, now = s.after(now.Add(3*windowLen), minSamples, chat, time.Second)
	want(s, 0, time.Second, "a new beginning")
}

// seeded is another sequence each time, but with COLONNADE_SEED.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if given := os.Getenv("COLONNADE_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("COLONNADE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// A bound must never refuse who could be served. What takes a constant and so much for each byte and each token is
// served in no less than its bound, whatever was measured.
func TestSoonestIsABound(t *testing.T) {
	r := seeded(t)
	for range 2000 {
		begin, byByte, byToken := r.IntN(1e6), r.IntN(1000), r.IntN(1e5)*r.IntN(2)
		some := func() (Work, time.Duration) {
			w, tokens := chat, 1+r.IntN(1000)
			w.Input = r.IntN(10000)
			if r.IntN(4) > 0 {
				w.Output = tokens
			}
			return w, time.Duration(begin + byByte*max(w.Input, 1) + byToken*tokens)
		}
		var s minTTFT
		now := time.Now()
		most := time.Duration(0)
		for range r.IntN(3 * minSamples) {
			w, took := some()
			most = max(most, took)
			now = now.Add(time.Duration(r.Int64N(int64(2 * windowLen / minSamples))))
			s = s.add(now, &w, took)
		}
		for range 20 {
			w, took := some()
			if w.Output == 0 && byToken > 0 {
				continue // how many it generates is a matter of luck: see enough
			}
			if bound := s.bound(now, &w); bound > took || bound > most {
				t.Fatalf("bound %v of what takes %v: %+v", bound, took, w)
			}
		}
	}
}

// Small requests are not refused for what large ones take, nor short answers for long ones.
func TestSoonestOfLessWork(t *testing.T) {
	now := time.Now()
	f := func(sample, asked Work, want time.Duration) {
		t.Helper()
		s, at := minTTFT{}.after(now, minSamples, sample, time.Second)
		if got := s.bound(at, &asked); got != want {
			t.Errorf("%+v after %+v: %v, want %v", asked, sample, got, want)
		}
	}
	f(Work{Input: 1000}, Work{Input: 1000}, time.Second)
	f(Work{Input: 1000}, Work{Input: 5000}, time.Second)
	f(Work{Input: 1000}, Work{Input: 10}, 10*time.Millisecond)
	f(Work{Input: 1000, Output: 100}, Work{Input: 1000, Output: 5}, 50*time.Millisecond)
	f(Work{Input: 1000, Output: 100}, Work{Input: 10, Output: 5}, 10*time.Millisecond)
	f(Work{Input: 1000, Output: 100}, Work{Input: 1000, Output: 500}, time.Second)
	f(Work{Input: 1000, Output: 100}, Work{Input: 1000}, time.Second)
	f(Work{Input: 1000}, Work{Input: 1000, Output: 100}, 0) // how many tokens those may have had, nobody knows
	f(Work{}, Work{}, time.Second)
}

// Between a bound by the samples of the last half and one by those of the last two lies what is told.
func TestSoonestAgainstAllSamples(t *testing.T) {
	r := seeded(t)
	type one struct {
		at   time.Time
		took time.Duration
	}
	var all []one
	var s minTTFT
	now := time.Now()
	since := func(from time.Time) (n int, least time.Duration) {
		least = time.Hour
		for _, o := range all {
			if !o.at.Before(from) {
				n, least = n+1, min(least, o.took)
			}
		}
		return n, least
	}
	for range 3000 {
		now = now.Add(time.Duration(r.ExpFloat64() * float64(windowLen) / minSamples))
		if r.IntN(300) == 0 {
			now = now.Add(3 * windowLen)
		}
		if r.IntN(2) == 0 {
			o := one{now, time.Duration(1 + r.IntN(1e9))}
			all = append(all, o)
			s = s.add(now, &chat, o.took)
		}
		fewest, atMost := since(now.Add(-windowLen))
		most, atLeast := since(now.Add(-2 * windowLen))
		switch bound := s.bound(now, &chat); {
		case bound == 0 && fewest >= minSamples:
			t.Fatalf("nothing is known after %d samples", fewest)
		case bound != 0 && (most < minSamples || bound < atLeast || bound > atMost):
			t.Fatalf("bound %v, want %v to %v (of %d samples, lately %d)", bound, atLeast, atMost, most, fewest)
		}
	}
}

// teach tells the pool so often how long answers took.
func teach(p *Pool, n int, w Work, took time.Duration) {
	for range n {
		p.recordTTFT(&FirstByte{Work: w, After: took})
	}
}

// What would be too late is refused at once; what may wait leaves when it could no longer be served in time; and what
// can be served is.
func TestLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table("key: pools/a\nqueue: {limit: 9, max_wait: 60s}\n---\n" + endpoints("a", 1, "one")))
		a := mustPool(t, d, "a")
		ask := func(within time.Duration) (Grant, error) {
			by := a.LatestStart(time.Now().Add(within), chat)
			return a.Acquire(t.Context(), permits.Request{Account: "acme", MaxWait: time.Minute, MaxExpected: -1, Deadline: by})
		}
		refused := func(within, after time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := ask(within)
			var refusal *permits.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != "deadline" || refusal.RetryAfter < time.Second {
				t.Fatalf("first byte within %v: %v, want refused for its deadline", within, err)
			}
			if d := time.Since(began); d != after {
				t.Errorf("first byte within %v: refused after %v, want %v", within, d, after)
			}
		}
		granted := func(within time.Duration) Grant {
			t.Helper()
			g, err := ask(within)
			if err != nil {
				t.Fatalf("first byte within %v: %v, want a grant", within, err)
			}
			return g
		}
		granted(10 * time.Millisecond).Release()
		teach(a, minSamples, chat, 50*time.Millisecond)
		refused(50*time.Millisecond, 0)
		g := granted(51 * time.Millisecond)
		refused(80*time.Millisecond, 30*time.Millisecond)
		time.AfterFunc(30*time.Millisecond, func() { g.Release() })
		granted(81 * time.Millisecond).Release()

		for _, other := range []Work{
			{Model: "other", Path: chat.Path, Streamed: true}, {Model: chat.Model, Path: "/v1/embeddings", Streamed: true},
			{Model: chat.Model, Path: chat.Path},
		} {
			teach(a, minSamples, other, time.Millisecond)
		}
		refused(50*time.Millisecond, 0)
		granted(51 * time.Millisecond).Release()

		time.Sleep(2 * windowLen)
		granted(10 * time.Millisecond).Release() // it is tried again
	})
}

// The bound can be wrong for a request that is unlike all others. One in each half is tried, and if it is served in time,
// so are all that follow.
func TestWhatSeemsTooLateIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runManager(t, &probes{})
		d.Apply(newDocuments(t).table(endpoints("a", 1, "one")))
		a := mustPool(t, d, "a")
		late := func() bool { return !a.LatestStart(time.Now().Add(20*time.Millisecond), chat).After(time.Now()) }
		served := func(lasts time.Duration) {
			for range int(lasts / (100 * time.Millisecond)) {
				teach(a, 1, chat, 50*time.Millisecond)
				time.Sleep(100 * time.Millisecond)
			}
		}
		served(10 * time.Second)
		tried := 0
		for range 100 {
			served(time.Second)
			if a.LatestStart(time.Now(), chat).After(time.Now()) {
				t.Fatal("one is tried that has no time at all")
			}
			for range 10 {
				if !late() {
					tried++
				}
			}
		}
		if tried < 9 || tried > 11 {
			t.Errorf("%d were tried in 100 s, want one in 10 s", tried)
		}
		teach(a, 1, chat, 5*time.Millisecond) // the last that was tried: it was not too late
		for range 9 {
			if served(time.Second); late() {
				t.Error("refused, although one like it was served")
			}
		}
	})
}

// An answer that nobody waited for shows no time at all, and only an engine that finds its limit is told of tokens.
func TestCutAnswersSetNoBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := found(t)
		a := mustPool(t, d, "a")
		g, err := take(a)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Release()
		by := time.Now().Add(time.Minute)
		for range 2 * minSamples {
			a.ObserveFirstByte(g, FirstByte{Work: chat, After: 30 * time.Second, Censored: true, Token: true})
		}
		if got := a.LatestStart(by, chat); !got.Equal(by) {
			t.Errorf("after answers that were cut: %v of the minute are left", time.Until(got))
		}
		samples := a.Stats().Endpoints[0].Auto.Samples
		for range 2 * minSamples {
			a.ObserveFirstByte(g, FirstByte{Work: chat, After: 30 * time.Second})
		}
		if got := a.Stats().Endpoints[0].Auto.Samples; got != samples {
			t.Errorf("%d samples for the limit of what is no token, want none", got-samples)
		}
		if got := a.LatestStart(by, chat); !got.Equal(by.Add(-30 * time.Second)) {
			t.Errorf("after others: %v of the minute are left, want 30s", time.Until(got))
		}
	})
}

// Kinds that nobody asks for make room for others.
func TestKindsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runManager(t, &probes{})
		d.Apply(newDocuments(t).table(endpoints("a", 1, "one")))
		a := mustPool(t, d, "a")
		for i := range 1000 {
			w := chat
			w.Model = fmt.Sprint(i)
			teach(a, 2, w, time.Second)
			teach(a, 2, chat, time.Second)
			time.Sleep(time.Second)
		}
		if n := len(*a.ttft.classes.Load()); n > int(2*windowLen/time.Second)+3 {
			t.Errorf("%d kinds are kept", n)
		}
		if a.ttft.of(chat.class()) == nil {
			t.Error("a kind that is asked for all the time was forgotten")
		}
	})
}

// It is read with each request and told with each answer, and nothing is allocated for that.
func TestBeginningsCostNothing(t *testing.T) {
	a := &Pool{manager: &Manager{}}
	teach(a, minSamples, chat, time.Millisecond)
	by := time.Now().Add(time.Hour)
	if n := testing.AllocsPerRun(1000, func() {
		teach(a, 1, chat, time.Second)
		a.LatestStart(by, chat)
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestBeginningsOfMany(t *testing.T) {
	a := &Pool{manager: &Manager{}}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				w := chat
				w.Model = fmt.Sprint(n % 5)
				teach(a, 1, w, time.Duration(1+i)*time.Second)
				a.LatestStart(time.Now().Add(time.Millisecond), w)
			}
		})
	}
	all.Wait()
	for n := range 5 {
		w := chat
		w.Model = fmt.Sprint(n)
		by := time.Now().Add(time.Hour)
		if got := by.Sub(a.LatestStart(by, w)); got != time.Second {
			t.Errorf("model %d: %v, want the least of all", n, got)
		}
	}
}

func BenchmarkBeginnings(b *testing.B) {
	a := &Pool{manager: &Manager{}}
	teach(a, minSamples, chat, time.Millisecond)
	b.ReportAllocs()
	b.Run("LastMoment", func(b *testing.B) {
		by := time.Now().Add(time.Hour)
		for b.Loop() {
			a.LatestStart(by, chat)
		}
	})
	b.Run("FirstByte", func(b *testing.B) {
		f := &FirstByte{Work: chat, After: time.Second}
		for b.Loop() {
			a.recordTTFT(f)
		}
	})
}
