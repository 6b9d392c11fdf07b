package admission_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// A fence that has passed holds for all pools until it is set anew, also for pools that come meanwhile.
func TestFenceOfAllPools(t *testing.T) {
	play(t, func(s *scenario) {
		s.put("key: pools/a\n---\n" + endpoints("a", 1, "one"))
		s.SetFence(time.Now().Add(time.Second))
		if s.take("a").Release(); !s.GrantsEnabled() {
			t.Error("grants are not enabled before the fence")
		}
		time.Sleep(time.Second)
		s.put("key: pools/b\n---\n" + endpoints("b", 1, "two"))
		granted := make(chan error, 2)
		for _, name := range []string{"a", "b"} {
			go func() {
				g, err := acquire(s.pool(name), context.Background(), waiting(time.Minute))
				if err == nil {
					g.Release()
				}
				granted <- err
			}()
		}
		time.Sleep(5 * time.Second)
		if len(granted) > 0 || s.GrantsEnabled() {
			t.Error("granted after the fence")
		}
		s.SetFence(time.Now().Add(time.Second))
		for range 2 {
			if err := <-granted; err != nil {
				t.Error(err)
			}
		}
	})
}

// stop lets the fence pass after a request that has waited for so long was granted the only slot of pool a, and before it
// has run again; it is as if the process had been stopped in between. Both channels get the request's end.
func (s *scenario) stop(after time.Duration) (ended chan error, queued chan time.Duration) {
	s.Helper()
	s.put("key: pools/a\n---\n" + endpoints("a", 1, "one"))
	p, first := s.pool("a"), s.take("a")
	ended, queued = make(chan error, 1), make(chan time.Duration, 1)
	go func() {
		g, err := acquire(p, context.Background(), waiting(8*time.Second))
		if err == nil {
			queued <- g.Queued()
			g.Release()
		}
		ended <- err
	}()
	time.Sleep(after)
	synctest.Wait()
	first.Release()
	s.SetFence(time.Time{})
	synctest.Wait()
	return ended, queued
}

// oneProcessor keeps other goroutines from running while the calling one does.
func oneProcessor(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// A permit that was granted before a stop and not used by then is not used after it: the request waits for another.
func TestGrantBeforeAStop(t *testing.T) {
	oneProcessor(t)
	play(t, func(s *scenario) {
		ended, queued := s.stop(3 * time.Second)
		if l := s.pool("a").Load(); l.Held != 0 || l.Queued != 1 || len(ended) > 0 {
			t.Errorf("%+v, and %d requests have ended", l, len(ended))
		}
		time.Sleep(2 * time.Second)
		s.SetFence(time.Now().Add(time.Second))
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if took := <-queued; took != 5*time.Second {
			t.Errorf("it waited for %v, want both waits", took)
		}
	})
}

// The wait before a stop counts against what the request may wait in all.
func TestWaitGoesOnAfterAStop(t *testing.T) {
	oneProcessor(t)
	play(t, func(s *scenario) {
		began := time.Now()
		ended, _ := s.stop(3 * time.Second)
		var refused *permits.Refusal
		if err := <-ended; !errors.As(err, &refused) || refused.Reason != permits.QueueTimeout {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("waited for %v", took)
		}
	})
}

// A request whose time was read before a stop is granted a permit by it at most once, and does not use it.
func TestTimeReadBeforeAStop(t *testing.T) {
	play(t, func(s *scenario) {
		s.put("key: pools/a\n---\n" + endpoints("a", 1, "one"))
		time.Sleep(time.Second)
		s.SetFence(time.Now().Add(time.Second))
		r := waiting(3 * time.Second)
		r.Now = time.Now()
		time.Sleep(2 * time.Second)
		var refused *permits.Refusal
		if _, err := acquire(s.pool("a"), context.Background(), r); !errors.As(err, &refused) || refused.Reason != permits.QueueTimeout {
			t.Errorf("got %v", err)
		}
	})
}
