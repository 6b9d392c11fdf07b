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

// When a part fails, the others go on and running requests get their time; but none when another node has the place,
// whenever that is found out.
func TestPartThatFails(t *testing.T) {
	f := func(failure error, drain time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := newBackground(t.Context())
			defer b.stop()
			b.Go(func() error { <-b.context.Done(); return nil })
			b.Go(func() error { return failure })
			<-b.asked.Done()
			began := time.Now()
			last, cancel := b.last(time.Minute)
			defer cancel()
			<-last.Done()
			if took := time.Since(began); took != drain || b.context.Err() != nil {
				t.Errorf("%v: what runs has %v, want %v; the other parts: %v", failure, took, drain, b.context.Err())
			}
			b.stop()
			if err := b.Wait(); !errors.Is(err, failure) {
				t.Errorf("ended with %v, want %v", err, failure)
			}
		})
	}
	f(errors.New("broken"), time.Minute)
	f(fmt.Errorf("lost: %w", &etcd.TakenError{}), 0)

	synctest.Test(t, func(t *testing.T) {
		ctx, ask := context.WithCancel(t.Context())
		b := newBackground(ctx)
		ask()
		<-b.asked.Done()
		began := time.Now()
		last, cancel := b.last(time.Minute)
		defer cancel()
		b.Go(func() error { time.Sleep(time.Second); return &etcd.TakenError{} })
		<-last.Done()
		if took := time.Since(began); took != time.Second {
			t.Errorf("a drain went on for %v after the place was taken", took-time.Second)
		}
		b.stop()
		if err := b.Wait(); err == nil {
			t.Error("nothing is said of the place")
		}
	})
}
