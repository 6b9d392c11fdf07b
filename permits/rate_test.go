package permits_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// warm lets the pool measure that permits are held for so long.
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
			go acquire(p, t.Context(), r)
			synctest.Wait()
		}
		// A request of another account is ahead of the six of this one, but for the one that is next.
		r := patient("other")
		r.MaxExpected = 1010 * time.Millisecond
		go acquire(p, t.Context(), r)
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

// A request that is not expected to be served in time is refused at once, for the reason that it would get later.
func TestRefusedForTheExpectedWait(t *testing.T) {
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
			t.Errorf("refused after %v", waited)
		}
		r.Rejoin, r.Deadline = true, time.Time{} // at the head, whatever a newcomer has to expect
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

// While engines hang, the rate falls, from three times the time on that a release should have taken; it recovers with the
// first release.
func TestRateFallsWhileEnginesHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, config(), fleet(1, 4)...)
		warm(t, p, time.Second, 64)
		time.Sleep(time.Hour) // idle: no release is due
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

// The rate does not fall between the releases of requests that start and end together.
func TestRateOfRequestsInStep(t *testing.T) {
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

// The rate does not fall in a pool that is full for long while permits are released.
func TestRateOfAFullPool(t *testing.T) {
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
