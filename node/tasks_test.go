package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/discovery/etcd"
)

// When a task fails, the others continue and running requests get the whole drain time. They get none once another node
// holds the key, whenever that is noticed.
func TestFailedTaskStopsNode(t *testing.T) {
	f := func(failure error, drain time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			all := newTasks(t.Context())
			defer all.end()
			all.Go(func() error { <-all.ctx.Done(); return nil })
			all.Go(func() error { return failure })
			<-all.stopping.Done()
			began := time.Now()
			ctx, cancel := all.drainContext(time.Minute)
			defer cancel()
			<-ctx.Done()
			if took := time.Since(began); took != drain || all.ctx.Err() != nil {
				t.Errorf("%v: running requests had %v, want %v; the other tasks: %v", failure, took, drain, all.ctx.Err())
			}
			all.end()
			if err := all.Wait(); !errors.Is(err, failure) {
				t.Errorf("the tasks ended with %v, want %v", err, failure)
			}
		})
	}
	f(errors.New("broken"), time.Minute)
	f(fmt.Errorf("lost: %w", &etcd.TakenError{}), 0)
}

func TestLostKeyEndsDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		all := newTasks(ctx)
		stop()
		<-all.stopping.Done()
		began := time.Now()
		drain, cancel := all.drainContext(time.Minute)
		defer cancel()
		all.Go(func() error { time.Sleep(time.Second); return &etcd.TakenError{} })
		<-drain.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the drain continued for %v after the key was lost", took-time.Second)
		}
		all.end()
		if err := all.Wait(); err == nil {
			t.Error("the lost key is not reported")
		}
	})
}
