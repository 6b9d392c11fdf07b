package permits_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// warm has the pool measure that permits are held for so long.
func warm(t *testing.T, p *permits.Pool, hold time.Duration, completions int) {
	t.Helper()
	for range completions {
		permit := take(t, p, patient("warm"))
		time.Sleep(hold)
		permit.Release()
	}
}

func TestRateIsKnownFromSixteen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(2, 2)...)
		warm(t, p, 2*time.Second, 15)
		if s := p.Stats(); s.RatePerSecond != 0 {
			t.Errorf("rate %v after 15 completions", s.RatePerSecond)
		}
		warm(t, p, 2*time.Second, 1)
		if s := p.Stats(); math.Abs(s.RatePerSecond-2) > 1e-6 {
			t.Errorf("rate %v, want 2 a second: 4 slots held for 2s each", s.RatePerSecond)
		}
		p.SetUsable("e0", false)
		if s := p.Stats(); math.Abs(s.RatePerSecond-1) > 1e-6 {
			t.Errorf("rate %v, want 1 a second with half of the slots", s.RatePerSecond)
		}
		warm(t, p, time.Second, 300)
		if s := p.Stats(); math.Abs(s.RatePerSecond-2) > 0.05 {
			t.Errorf("rate %v, want 2 a second once requests take half as long", s.RatePerSecond)
		}
	})
}

func TestExpectedWait(t *testing.T) {
	c := config()
	c.MaxWait = time.Hour
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 2)...)
		warm(t, p, time.Second, 16)
		if load := p.Load(); load.Expected != 0 || !load.Known {
			t.Errorf("with free slots %+v", load)
		}
		held, _ := takeAll(t, p, permits.Request{})
		for queued := range 6 {
			want := time.Duration(queued+1) * time.Second / 2
			if load := p.Load(); !load.Known || (load.Expected-want).Abs() > time.Millisecond {
				t.Errorf("behind %d: expected %v (known: %v), want %v", queued, load.Expected, load.Known, want)
			}
			r := patient("")
			r.MaxExpected = want - 2*time.Millisecond
			if refusal := refuse(t, p, r, permits.Busy); (refusal.Expected - want).Abs() > time.Millisecond {
				t.Errorf("refused behind %d: expected %v, want %v", queued, refusal.Expected, want)
			}
			r.MaxExpected = want + 2*time.Millisecond
			go p.Acquire(t.Context(), r)
			synctest.Wait()
		}
		// Another account is ahead of the six of this one, but for the one whose turn is next.
		r := patient("other")
		r.MaxExpected = 1010 * time.Millisecond
		go p.Acquire(t.Context(), r)
		synctest.Wait()
		if n := p.Load().Queued; n != 7 {
			t.Errorf("%d queued, want 7", n)
		}
		p.Drain()
		for _, permit := range held {
			permit.Release()
		}
	})
}

// What cannot be served in time hears so at once, for the reason that it would hear later.
func TestRefusedForWhatIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(1, 1)...)
		warm(t, p, 20*time.Second, 16)
		held := take(t, p, patient("a"))
		began := time.Now()
		refuse(t, p, patient("a"), permits.QueueTimeout)
		r := patient("a")
		r.Deadline = time.Now().Add(5 * time.Second)
		refuse(t, p, r, permits.Deadline)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("told after %v", waited)
		}
		r.Rejoin, r.Deadline = true, time.Time{} // at the head, whatever newcomers have to expect
		done := start(t.Context(), p, r)
		synctest.Wait()
		held.Release()
		if again := <-done; again.err != nil {
			t.Errorf("one that rejoins: %v", again.err)
		} else {
			again.permit.Release()
		}
	})
}

// Engines that hang do not keep a good name: after three times the time that a release should have taken, the rate
// falls, and comes back with the first release.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(1, 4)...)
		warm(t, p, time.Second, 64)
		time.Sleep(time.Hour) // idle: nothing can be expected
		if rate := p.Stats().RatePerSecond; math.Abs(rate-4) > 1e-6 {
			t.Errorf("rate %v after an idle hour, want 4 a second", rate)
		}
		held, _ := takeAll(t, p, permits.Request{})
		expect := func(after, want time.Duration) {
			t.Helper()
			time.Sleep(after)
			if load := p.Load(); (load.Expected - want).Abs() > time.Millisecond {
				t.Errorf("expected %v, want %v", load.Expected, want)
			}
		}
		expect(0, 250*time.Millisecond)
		expect(750*time.Millisecond, 250*time.Millisecond)
		expect(2250*time.Millisecond, 750*time.Millisecond)
		expect(27*time.Second, 7500*time.Millisecond)
		held[0].Release()
		take(t, p, patient("a"))
		if rate := p.Stats().RatePerSecond; rate < 2 {
			t.Errorf("rate %v after a release", rate)
		}
		for _, permit := range held[1:] {
			permit.Release()
		}
	})
}

// Slots that are all taken and all left at once are not silent in between.
func TestInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(1, 8)...)
		for range 10 {
			held, _ := takeAll(t, p, permits.Request{})
			time.Sleep(999 * time.Millisecond)
			if s := p.Stats(); s.ExpectedMillis != nil && math.Abs(s.RatePerSecond-8) > 0.02 {
				t.Errorf("rate %v, want 8 a second", s.RatePerSecond)
			}
			for _, permit := range held {
				permit.Release()
			}
		}
	})
}

// A pool that is full for long, but where permits come back, is not silent.
func TestFullIsNotSilent(t *testing.T) {
	c := config()
	c.MaxWait = time.Hour
	play(t, c, fleet(1, 1), func(s *scene) {
		s.ask("one after the other", patient("a"))
		s.release()
		for range 100 {
			s.ask("one after the other", patient("a")) // waits until the one before is done
			time.Sleep(time.Second)
		}
		if rate := s.pool.Stats().RatePerSecond; rate < 0.9 {
			t.Errorf("rate %v, want 1 a second", rate)
		}
		time.Sleep(time.Second)
	})
}

// Those who are told to come back are told to come back one after the other.
func TestRetryAfter(t *testing.T) {
	c := config()
	c.MaxWait = 0
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		defer take(t, p, permits.Request{}).Release()
		unknown := refuse(t, p, patient("a"), permits.Busy)
		if unknown.RetryAfter > 3250*time.Millisecond || unknown.Expected != 0 {
			t.Errorf("without a rate: %+v, want 1s to 3.25s", unknown)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		warm(t, p, 500*time.Millisecond, 16)
		defer take(t, p, permits.Request{}).Release()
		within := func(got time.Duration, computed float64) {
			t.Helper()
			computed = min(max(computed, 1), 25.6)
			if got.Seconds() < computed-1e-6 || got.Seconds() > 1.25*computed+1e-6 {
				t.Errorf("told to come back in %v, want %v s to %v s", got, computed, 1.25*computed)
			}
		}
		elsewhere := permits.Request{Account: "a", MaxExpected: time.Millisecond} // tries another pool: does not come back
		for range 100 {
			within(refuse(t, p, elsewhere, permits.Busy).RetryAfter, 0)
		}
		for told := range 100 { // two a second
			within(refuse(t, p, patient("a"), permits.Busy).RetryAfter, float64(told)/2)
		}
	})
}

// Those who wait are served before anybody who comes back.
func TestRetryAfterTheQueue(t *testing.T) {
	c := config()
	c.PerAccount = 8
	play(t, c, fleet(1, 1), func(s *scene) {
		time.Sleep(time.Second)
		s.release()
		warm(t, s.pool, time.Second, 16)
		for range 9 {
			s.ask("waits", patient("a"))
		}
		r := refuse(t, s.pool, patient("a"), permits.AccountQueueFull)
		if r.RetryAfter < 8*time.Second || r.RetryAfter > 10*time.Second {
			t.Errorf("with 8 waiting for a second each, told to come back in %v", r.RetryAfter)
		}
		time.Sleep(10 * time.Second)
	})
}

// Who was due to come back is not counted any more.
func TestRetryAfterForgets(t *testing.T) {
	c := config()
	c.MaxWait = 0
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		for range 50 {
			warm(t, p, 10*time.Millisecond, 64) // a hundred a second
			held := take(t, p, permits.Request{})
			for range 1000 {
				refuse(t, p, patient("a"), permits.Busy)
			}
			if after := refuse(t, p, patient("a"), permits.Busy).RetryAfter; after < 5*time.Second {
				t.Errorf("told to come back in %v with a thousand told before", after)
			}
			held.Release()
			time.Sleep(34*time.Second + 100*time.Millisecond)
		}
		held := take(t, p, permits.Request{})
		if after := refuse(t, p, patient("a"), permits.Busy).RetryAfter; after > 1250*time.Millisecond {
			t.Errorf("told to come back in %v though all have been due", after)
		}
		held.Release()
	})
}

func TestRetryAfterIsSpread(t *testing.T) {
	p := newPool(t, permits.Config{}, fleet(1, 1)...)
	defer take(t, p, permits.Request{}).Release()
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[refuse(t, p, permits.Request{}, permits.Busy).RetryAfter] = true
	}
	if len(seen) < 90 {
		t.Errorf("%d different answers of 100", len(seen))
	}
}

func TestFullTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config())
		want := func(want time.Duration) {
			t.Helper()
			check(t, p)
			if got := p.Stats().FullSeconds; got != want.Seconds() {
				t.Errorf("full for %v s, want %v", got, want)
			}
		}
		time.Sleep(time.Second) // no slots at all: not full
		p.SetEndpoints(fleet(1, 1))
		time.Sleep(time.Second)
		want(0)
		permit := take(t, p, patient("a"))
		time.Sleep(time.Second)
		want(time.Second)
		permit.Release()
		time.Sleep(time.Second)
		want(time.Second)
		p.MarkFull("e0", time.Now().Add(2*time.Second))
		time.Sleep(3 * time.Second)
		want(3 * time.Second)
		permit = take(t, p, patient("a"))
		p.SetUsable("e0", false)
		time.Sleep(time.Second)
		permit.Release()
		want(3 * time.Second)
	})
}

// An account that does not obey, and asks again and again, puts off nobody but itself.
func TestRetryAfterIsByAccount(t *testing.T) {
	c := config()
	c.MaxWait = 0
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		warm(t, p, 100*time.Millisecond, 16) // ten a second
		defer take(t, p, permits.Request{}).Release()
		for range 1000 {
			refuse(t, p, patient("disobeys"), permits.Busy)
		}
		if after := refuse(t, p, patient("disobeys"), permits.Busy).RetryAfter; after < 25*time.Second {
			t.Errorf("after a thousand it is told to come back in %v", after)
		}
		for told := range 20 { // each is one of two accounts, and so is served every other time
			computed := max(float64(told)*2/10, 1)
			after := refuse(t, p, patient("obeys"), permits.Busy).RetryAfter.Seconds()
			if after < computed-1e-6 || after > 1.25*(computed+0.2) {
				t.Errorf("number %d of the other account is told to come back in %v s, want about %v", told, after, computed)
			}
		}
		heavy := patient("heavy")
		heavy.Weight = 98 // of 100
		for range 99 {
			refuse(t, p, heavy, permits.Busy)
		}
		if after := refuse(t, p, heavy, permits.Busy).RetryAfter; after < 10*time.Second || after > 13500*time.Millisecond {
			t.Errorf("number 100 of an account with nearly all the weight is told to come back in %v, want about 10 s", after)
		}
	})
}

// An account that may have one running of eight slots is told how long its own take.
func TestRetryAfterAtTheCap(t *testing.T) {
	c := config()
	c.PerAccount = 4
	play(t, c, fleet(1, 8), func(s *scene) {
		s.release()
		warm(t, s.pool, time.Second, 500)
		capped := patient("capped")
		capped.Concurrent = 1
		for range 5 {
			s.ask("capped", capped)
		}
		for told := range 4 { // four wait for one each, and so do those who were told before
			r := refuse(t, s.pool, capped, permits.AccountLimit)
			if want := time.Duration(4+told) * time.Second; r.RetryAfter < want-time.Second || r.RetryAfter > (want+time.Second)*5/4 {
				t.Errorf("number %d is told to come back in %v, want about %v", told, r.RetryAfter, want)
			}
		}
		time.Sleep(10 * time.Second)
	})
}

// Of a burst that is more than the pool and its queue can take, those who come back when they were told find room.
func TestObedientClientsAreAdmitted(t *testing.T) {
	c := config()
	c.MaxWait = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(2, 8)...)
		for range 16 {
			warm(t, p, 500*time.Millisecond, 1)
		}
		var all sync.WaitGroup
		var refused, admitted atomic.Int64
		for i := range 600 { // 32 a second: 19 s of work
			all.Go(func() {
				r := patient(fmt.Sprint(i % 5))
				permit, err := p.Acquire(context.Background(), r)
				var told *permits.Refusal
				if errors.As(err, &told) {
					refused.Add(1)
					time.Sleep(told.RetryAfter)
					if permit, err = p.Acquire(context.Background(), r); err == nil {
						admitted.Add(1)
					}
				}
				if err == nil {
					time.Sleep(500 * time.Millisecond)
					permit.Release()
				}
			})
		}
		all.Wait()
		t.Logf("%d refused, %d of them admitted when they came back", refused.Load(), admitted.Load())
		if refused.Load() < 200 || admitted.Load()*10 < refused.Load()*9 {
			t.Errorf("%d refused, %d of them admitted when they came back, want nine of ten", refused.Load(), admitted.Load())
		}
	})
}

// Those of lower bands who were told to come back are served after one of a higher band that comes now, and those of
// higher bands before one of a lower.
func TestRetryAfterIsByBand(t *testing.T) {
	c := config()
	c.MaxWait = 0
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		warm(t, p, time.Second, 16)
		defer take(t, p, permits.Request{}).Release()
		for i := range 20 {
			batch := patient(fmt.Sprint("night", i))
			batch.Band = permits.Batch
			refuse(t, p, batch, permits.Busy)
		}
		interactive := patient("day")
		interactive.Band = permits.Interactive
		if after := refuse(t, p, interactive, permits.Busy).RetryAfter; after > 1250*time.Millisecond {
			t.Errorf("an interactive request is told to come back in %v", after)
		}
		batch := patient("another night")
		batch.Band = permits.Batch
		if after := refuse(t, p, batch, permits.Busy).RetryAfter; after < 20*time.Second {
			t.Errorf("a batch request is told to come back in %v", after)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, c, fleet(1, 1)...)
		warm(t, p, time.Second, 16)
		defer take(t, p, permits.Request{}).Release()
		for range 10 {
			interactive := patient("day")
			interactive.Band = permits.Interactive
			refuse(t, p, interactive, permits.Busy)
			refuse(t, p, patient("morning"), permits.Busy)
		}
		batch := patient("night")
		batch.Band = permits.Batch
		if after := refuse(t, p, batch, permits.Busy).RetryAfter; after < 20*time.Second {
			t.Errorf("behind twenty of higher bands a batch request is told to come back in %v", after)
		}
	})
}
