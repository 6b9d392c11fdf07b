package permits_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// report is one progress report, and when it came, counted from the first.
type report struct {
	at       time.Duration
	progress permits.Progress
}

// reports records the progress reports of a request.
type reports struct {
	mu    sync.Mutex // guards the fields below
	began time.Time
	all   []report
}

func (r *reports) add(p permits.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		r.began = time.Now()
	}
	r.all = append(r.all, report{time.Since(r.began), p})
}

func (r *reports) list() []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

func at(t time.Duration, position int) report { return report{t, permits.Progress{Position: position}} }

func (r *reports) want(t *testing.T, want ...report) {
	t.Helper()
	if got := r.list(); !slices.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
}

// Progress is reported when a request begins to wait, then once a second, and not once the request is granted a permit.
func TestProgress(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		for range 3 {
			s.ask("ahead", patient("a"))
		}
		var all reports
		r := patient("a")
		r.Progress = all.add
		s.ask("it", r)
		all.want(s.T, at(0, 4))
		time.Sleep(2500 * time.Millisecond)
		all.want(s.T, at(0, 4), at(time.Second, 4), at(2*time.Second, 4))
		s.release() // each of those ahead holds its permit for a second
		time.Sleep(4 * time.Second)
		synctest.Wait()
		all.want(s.T, at(0, 4), at(time.Second, 4), at(2*time.Second, 4), at(3*time.Second, 3), at(4*time.Second, 2), at(5*time.Second, 1))
		s.wantGranted("ahead", "ahead", "ahead", "it")
		time.Sleep(10 * time.Second)
		if n := len(all.list()); n != 6 {
			s.Errorf("%d reports, want 6: it was granted its permit", n)
		}
	})
}

// A request that does not wait reports no progress, and one that has left reports none any more.
func TestNoProgressWithoutAWait(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		var all reports
		r := patient("a")
		r.MaxWait, r.Progress = 0, all.add
		refuse(s.T, s.pool, r, permits.Busy)
		s.release()
		take(s.T, s.pool, r).Release()
		if got := all.list(); len(got) > 0 {
			s.Errorf("reported %v without a wait", got)
		}
		ctx, leave := context.WithCancel(s.Context())
		s.held = append(s.held, take(s.T, s.pool, patient("holder")))
		r = patient("a")
		r.MaxWait, r.Progress = 90*time.Second, all.add
		done := start(ctx, s.pool, r)
		time.Sleep(1500 * time.Millisecond)
		leave()
		<-done
		s.ask("other", patient("b"))
		time.Sleep(5 * time.Second)
		if n := len(all.list()); n != 2 {
			s.Errorf("%d reports, want 2: it has left", n)
		}
		s.release()
		s.wantGranted("other")
		time.Sleep(time.Second)
	})
}

// The wait that is reported is what a newcomer in the same place would expect, and becomes shorter with the queue.
func TestProgressExpectedWait(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		s.release()
		for range 16 { // from then on the rate is known
			permit := take(s.T, s.pool, patient("a"))
			time.Sleep(time.Second)
			permit.Release()
		}
		s.held = append(s.held, take(s.T, s.pool, patient("holder")))
		s.ask("ahead", patient("a"))
		expected := s.pool.Load().Expected
		var all reports
		r := patient("a")
		r.Progress = all.add
		s.ask("it", r)
		if got := all.list(); len(got) != 1 || got[0].progress != (permits.Progress{Position: 2, Expected: expected.Round(time.Millisecond), Known: true}) {
			s.Errorf("reported %v, want position 2 and %v", got, expected)
		}
		s.release()
		time.Sleep(900 * time.Millisecond)
		s.ask("after", patient("a"))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got := all.list(); len(got) > 2 || len(got) == 2 && got[1].progress.Position != 1 {
			s.Errorf("reported %v", got)
		}
		time.Sleep(10 * time.Second)
		s.wantGranted("ahead", "it", "after")
	})
}

// A callback that panics leaves neither a waiter in the queue nor a permit held.
func TestProgressPanics(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		for range 2 { // waiting, and with a permit that comes meanwhile
			r := patient("a")
			granted := len(s.held) == 0
			if granted {
				s.held = append(s.held, take(s.T, s.pool, patient("holder")))
			}
			r.Progress = func(permits.Progress) {
				if granted {
					s.release()
				}
				panic("a bug")
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = acquire(s.pool, s.Context(), r)
				s.Error("it did not panic")
			}()
			if l := s.pool.Load(); l.Queued != 0 {
				s.Errorf("%d wait", l.Queued)
			}
			s.release()
			if l := s.pool.Load(); l.Held != 0 {
				s.Errorf("%d held", l.Held)
			}
		}
	})
}

// Grants, cancellations and reports race each other, and no slot is lost. The race detector also sees that no report comes
// after Acquire has returned.
func TestProgressRaces(t *testing.T) {
	p := newPool(t, config(), fleet(2, 2)...)
	var all sync.WaitGroup
	var reported atomic.Int64
	for n := range 16 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			for range 300 {
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(rng.IntN(300))*time.Microsecond)
				returned := false
				r := patient([]string{"a", "b", "c"}[n%3])
				r.Progress = func(permits.Progress) {
					reported.Add(1)
					if returned {
						t.Error("reported after the end")
					}
				}
				permit, err := acquire(p, ctx, r)
				returned = true
				if err == nil {
					time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
					permit.Release()
				}
				leave()
			}
		})
	}
	all.Wait()
	if l := p.Load(); l.Held != 0 || l.Queued != 0 || reported.Load() == 0 {
		t.Errorf("%+v, %d reports", l, reported.Load())
	}
}
