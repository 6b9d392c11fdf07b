package permits_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// A detached wait may end before or after OnResolved: whenResolved is called once either way, and the result is the same.
func TestDetachedWaitEnds(t *testing.T) {
	gone := errors.New("gone")
	ends := []struct {
		name   string
		end    func(s *scene, leave context.CancelCauseFunc)
		reason permits.Reason // of the refusal; empty = none
		err    error          // that is none of the pool's
	}{
		{name: "granted", end: func(s *scene, _ context.CancelCauseFunc) { s.release() }},
		{name: "drained", end: func(s *scene, _ context.CancelCauseFunc) { s.pool.Drain() }, reason: permits.Draining},
		{name: "moved", end: func(s *scene, _ context.CancelCauseFunc) { s.pool.SetHome(false) }, reason: permits.Moved},
		{name: "without an endpoint", end: func(s *scene, _ context.CancelCauseFunc) { s.pool.SetEndpoints(nil) }, reason: permits.NoEndpoint},
		{name: "late", end: func(*scene, context.CancelCauseFunc) { time.Sleep(config().MaxWait) }, reason: permits.QueueTimeout},
		{name: "left", end: func(_ *scene, leave context.CancelCauseFunc) { leave(gone) }, err: gone},
	}
	for _, c := range ends {
		for _, order := range []string{"before", "after"} {
			t.Run(c.name+" "+order+" OnResolved", func(t *testing.T) {
				play(t, config(), fleet(1, 1), func(s *scene) {
					ctx, leave := context.WithCancelCause(s.Context())
					defer leave(nil)
					r := patient("a")
					r.Detached = true
					if _, err := s.pool.Acquire(ctx, &r); err != permits.ErrWaits {
						s.Fatalf("got %v, want that it waits", err)
					}
					var calls atomic.Int32
					arm := func() { s.pool.OnResolved(&r, func() { calls.Add(1) }) }
					if order == "before" {
						c.end(s, leave)
						synctest.Wait()
						arm()
					} else {
						arm()
						c.end(s, leave)
					}
					synctest.Wait()
					if n := calls.Load(); n != 1 {
						s.Fatalf("whenResolved was called %d times, want once", n)
					}
					permit, err := s.pool.Acquire(ctx, &r)
					switch {
					case c.reason != "":
						wantRefusal(t, err, c.reason)
					case err != c.err:
						s.Errorf("got %v, want %v", err, c.err)
					case err == nil:
						permit.Release()
					}
					time.Sleep(time.Minute) // a timer that was left would call again
					if n := calls.Load(); n != 1 {
						s.Errorf("whenResolved was called %d times, want once", n)
					}
					s.release()
				})
			})
		}
	}
}
