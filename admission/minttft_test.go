package admission

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var chat = Work{Model: "m", Path: "/v1/chat/completions", Streamed: true, Input: 400}

// after returns s with n more samples a millisecond apart, and the time of the last.
func (s minTTFT) after(now time.Time, n int, w Work, took time.Duration) (minTTFT, time.Time) {
	for range n {
		now = now.Add(time.Millisecond)
		s = s.add(now, &w, took)
	}
	return s, now
}

func TestMinTTFT(t *testing.T) {
	now := time.Now()
	want := func(s minTTFT, at time.Duration, least time.Duration, why string) {
		t.Helper()
		if got := s.bound(now.Add(at), &chat); got != least {
			t.Errorf("%s: %v, want %v", why, got, least)
		}
	}
	var s minTTFT
	want(s, 0, 0, "no samples")
	s, now = s.after(now, minSamples-1, chat, 50*time.Millisecond)
	want(s, 0, 0, "too few samples")
	s, now = s.after(now, 1, chat, 80*time.Millisecond)
	want(s, 0, 50*time.Millisecond, "the least counts")
	s, now = s.after(now, 1, chat, 20*time.Millisecond)
	want(s, 0, 20*time.Millisecond, "a faster one is noticed at once")

	s, now = s.after(now.Add(windowLen), 1, chat, 70*time.Millisecond)
	want(s, 0, 20*time.Millisecond, "samples of the older window count")
	want(s, windowLen, 0, "one sample is left")
	s, now = s.after(now, minSamples-1, chat, 60*time.Millisecond)
	want(s, 0, 20*time.Millisecond, "still")
	want(s, windowLen, 60*time.Millisecond, "a slower engine is noticed")
	want(s, 2*windowLen, 0, "all samples are too old")
	s, now = s.after(now.Add(3*windowLen), minSamples, chat, time.Second)
	want(s, 0, time.Second, "new samples after a long time")
}

// seeded returns another sequence each time, but with COLONNADE_SEED.
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

// The bound must not refuse a request that could be served: where a request takes a constant and so much for each byte and
// each token, it takes no less than its bound, whatever was measured.
func TestMinTTFTIsALowerBound(t *testing.T) {
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
				continue // how many tokens it generates is a matter of luck: see minSamples
			}
			if bound := s.bound(now, &w); bound > took || bound > most {
				t.Fatalf("bound %v of what takes %v: %+v", bound, took, w)
			}
		}
	}
}

// Small requests are not refused for the time of large ones, nor short answers for that of long ones.
func TestMinTTFTOfLessWork(t *testing.T) {
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
	f(Work{Input: 1000}, Work{Input: 1000, Output: 100}, 0) // how many tokens the samples had is not known
	f(Work{}, Work{}, time.Second)
}

// The bound lies between that of the samples of the last window and that of the last two windows.
func TestMinTTFTAgainstAllSamples(t *testing.T) {
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
			t.Fatalf("no bound after %d samples", fewest)
		case bound != 0 && (most < minSamples || bound < atLeast || bound > atMost):
			t.Fatalf("bound %v, want %v to %v (of %d samples, lately %d)", bound, atLeast, atMost, most, fewest)
		}
	}
}

// teach records that n answers took so long to begin.
func teach(p *Pool, n int, w Work, took time.Duration) {
	for range n {
		p.recordTTFT(&FirstByte{Work: w, After: took})
	}
}

// Classes without samples make room for others.
func TestClassesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Pool{manager: &Manager{}}
		for i := range 1000 {
			w := chat
			w.Model = fmt.Sprint(i)
			teach(a, 2, w, time.Second)
			teach(a, 2, chat, time.Second)
			time.Sleep(time.Second)
		}
		if n := len(*a.ttft.classes.Load()); n > int(2*windowLen/time.Second)+3 {
			t.Errorf("%d classes are kept", n)
		}
		if a.ttft.of(chat.class()) == nil {
			t.Error("a class that has samples all the time was forgotten")
		}
	})
}

// Neither a request nor an answer allocates for the bound.
func TestMinTTFTAllocatesNothing(t *testing.T) {
	a := &Pool{manager: &Manager{}}
	teach(a, minSamples, chat, time.Millisecond)
	by := time.Now().Add(time.Hour)
	if n := testing.AllocsPerRun(1000, func() {
		teach(a, 1, chat, time.Second)
		a.LatestStart(time.Now(), by, chat)
	}); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Many requests of several classes at once are all counted.
func TestMinTTFTConcurrently(t *testing.T) {
	a := &Pool{manager: &Manager{}}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 500 {
				w := chat
				w.Model = fmt.Sprint(n % 5)
				teach(a, 1, w, time.Duration(1+i)*time.Second)
				a.LatestStart(time.Now(), time.Now().Add(time.Millisecond), w)
			}
		})
	}
	all.Wait()
	for n := range 5 {
		w := chat
		w.Model = fmt.Sprint(n)
		by := time.Now().Add(time.Hour)
		if got := by.Sub(a.LatestStart(time.Now(), by, w)); got != time.Second {
			t.Errorf("model %d: %v, want the least of all", n, got)
		}
	}
}

func BenchmarkMinTTFT(b *testing.B) {
	a := &Pool{manager: &Manager{}}
	teach(a, minSamples, chat, time.Millisecond)
	b.ReportAllocs()
	b.Run("LatestStart", func(b *testing.B) {
		by := time.Now().Add(time.Hour)
		for b.Loop() {
			a.LatestStart(time.Now(), by, chat)
		}
	})
	b.Run("FirstByte", func(b *testing.B) {
		f := &FirstByte{Work: chat, After: time.Second}
		for b.Loop() {
			a.recordTTFT(f)
		}
	})
}
