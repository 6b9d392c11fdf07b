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

// told is what one request was told of how it waits, and when, counted from the first.
type told struct {
	at   time.Duration
	what permits.Progress
}

// ear listens to what a request is told.
type ear struct {
	mu    sync.Mutex // guards the fields below
	began time.Time
	all   []told
}

func (e *ear) hear(p permits.Progress) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.began.IsZero() {
		e.began = time.Now()
	}
	e.all = append(e.all, told{time.Since(e.began), p})
}

func (e *ear) heard() []told {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

func at(t time.Duration, position int) told { return told{t, permits.Progress{Position: position}} }

func (e *ear) want(t *testing.T, want ...told) {
	t.Helper()
	if got := e.heard(); !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

// A request is told at once where it stands, then when that has changed but at most each second, and nothing once it is
// decided.
func TestProgress(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		for range 3 {
			s.ask("ahead", patient("a"))
		}
		var e ear
		r := patient("a")
		r.Progress = e.hear
		s.ask("it", r)
		e.want(s.T, at(0, 4))
		time.Sleep(2500 * time.Millisecond)
		e.want(s.T, at(0, 4)) // nothing has changed
		s.release()           // each of those ahead holds its permit for a second
		time.Sleep(4 * time.Second)
		synctest.Wait()
		e.want(s.T, at(0, 4), at(3*time.Second, 3), at(4*time.Second, 2), at(5*time.Second, 1))
		s.wantGranted("ahead", "ahead", "ahead", "it")
		time.Sleep(10 * time.Second)
		if n := len(e.heard()); n != 4 {
			s.Errorf("told %d times, want 4: it was granted its permit", n)
		}
	})
}

// Who goes to others' fate, or is served at once, is told nothing more, and nothing at all.
func TestProgressOfNoWaiter(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		var e ear
		r := patient("a")
		r.MaxWait, r.Progress = 0, e.hear
		refuse(s.T, s.pool, r, permits.Busy)
		s.release()
		take(s.T, s.pool, r).Release()
		if got := e.heard(); len(got) > 0 {
			s.Errorf("told %v without a wait", got)
		}
		ctx, leave := context.WithCancel(s.Context())
		s.held = append(s.held, take(s.T, s.pool, patient("holder")))
		r = patient("a")
		r.MaxWait, r.Progress = 90*time.Second, e.hear
		done := start(ctx, s.pool, r)
		time.Sleep(1500 * time.Millisecond)
		leave()
		<-done
		s.ask("other", patient("b"))
		time.Sleep(5 * time.Second)
		if n := len(e.heard()); n != 1 {
			s.Errorf("told %d times, want 1: it has left", n)
		}
		s.release()
		s.wantGranted("other")
		time.Sleep(time.Second)
	})
}

// The wait that is told is what a newcomer in the same place would be told, and becomes shorter with the queue.
func TestProgressExpects(t *testing.T) {
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
		var e ear
		r := patient("a")
		r.Progress = e.hear
		s.ask("it", r)
		if got := e.heard(); len(got) != 1 || got[0].what != (permits.Progress{Position: 2, Expected: expected.Round(time.Millisecond), Known: true}) {
			s.Errorf("told %v, want position 2 and %v", got, expected)
		}
		s.release()
		time.Sleep(900 * time.Millisecond)
		s.ask("after", patient("a"))
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if got := e.heard(); len(got) > 2 || len(got) == 2 && got[1].what.Position != 1 {
			s.Errorf("told %v", got)
		}
		time.Sleep(10 * time.Second)
		s.wantGranted("ahead", "it", "after")
	})
}

// A listener that panics leaves nothing behind, in the queue or of a slot.
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
				panic("a bug of ours")
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = s.pool.Acquire(s.Context(), r)
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

// Grants, cancellations and what is told race each other, and nothing is lost. That nothing is told after Acquire has
// returned, the race detector sees too.
func TestProgressRaces(t *testing.T) {
	p := newPool(t, config(), fleet(2, 2)...)
	var all sync.WaitGroup
	var told atomic.Int64
	for n := range 16 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			for range 300 {
				ctx, leave := context.WithTimeout(t.Context(), time.Duration(rng.IntN(300))*time.Microsecond)
				returned := false
				r := patient([]string{"a", "b", "c"}[n%3])
				r.Progress = func(permits.Progress) {
					told.Add(1)
					if returned {
						t.Error("told after the end")
					}
				}
				permit, err := p.Acquire(ctx, r)
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
	if l := p.Load(); l.Held != 0 || l.Queued != 0 || told.Load() == 0 {
		t.Errorf("%+v, told %d times", l, told.Load())
	}
}
