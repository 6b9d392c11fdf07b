package lazyctx_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/internal/lazyctx"
)

var errCause = errors.New("cause")

func TestEndsWithItsFirstCause(t *testing.T) {
	for name, use := range map[string]func(context.Context){
		"unused before":  func(context.Context) {},
		"waited for":     func(c context.Context) { c.Done() },
		"asked for more": func(c context.Context) { _ = context.Cause(c) },
	} {
		t.Run(name, func(t *testing.T) {
			c := new(lazyctx.Context)
			use(c)
			if err, cause := c.Err(), context.Cause(c); err != nil || cause != nil {
				t.Fatalf("before its end: %v, %v", err, cause)
			}
			if _, ok := c.Deadline(); ok {
				t.Error("has a deadline")
			}
			c.Cancel(errCause)
			c.Cancel(nil)
			if err, cause := c.Err(), context.Cause(c); err != context.Canceled || cause != errCause {
				t.Errorf("%v, %v", err, cause)
			}
			<-c.Done()
		})
	}
	c := new(lazyctx.Context)
	c.Cancel(nil)
	if cause := context.Cause(c); cause != context.Canceled {
		t.Errorf("without a cause: %v", cause)
	}
}

func TestHasNoValues(t *testing.T) {
	if v := new(lazyctx.Context).Value(errCause); v != nil {
		t.Errorf("value %v", v)
	}
}

// Contexts that are derived end with it, before its end or after, and so do functions of package context.
func TestEndsDerivedContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(lazyctx.Context)
		derive := func() (all []context.Context) {
			within, cancel := context.WithTimeoutCause(c, time.Hour, errors.New("late"))
			t.Cleanup(cancel)
			child, cancelChild := context.WithCancel(within)
			t.Cleanup(cancelChild)
			return []context.Context{within, child, context.WithValue(child, errCause, 1)}
		}
		all := derive()
		var called atomic.Int32
		context.AfterFunc(c, func() { called.Add(1) })
		synctest.Wait()
		if called.Load() != 0 {
			t.Fatal("called before the end")
		}
		c.Cancel(errCause)
		context.AfterFunc(c, func() { called.Add(1) })
		synctest.Wait()
		for i, d := range append(all, derive()...) {
			if d.Err() != context.Canceled || context.Cause(d) != errCause {
				t.Errorf("context %d: %v, %v", i, d.Err(), context.Cause(d))
			}
		}
		if n := called.Load(); n != 2 {
			t.Errorf("%d of 2 functions were called", n)
		}
	})
}

func TestDerivedContextsEndBefore(t *testing.T) {
	c := new(lazyctx.Context)
	child, cancel := context.WithCancelCause(c)
	cancel(errCause)
	if context.Cause(child) != errCause || c.Err() != nil {
		t.Errorf("child %v, parent %v", context.Cause(child), c.Err())
	}
}

func TestHooks(t *testing.T) {
	for name, make := range map[string]func() (context.Context, context.CancelCauseFunc){
		"own": func() (context.Context, context.CancelCauseFunc) { c := new(lazyctx.Context); return c, c.Cancel },
		"another": func() (context.Context, context.CancelCauseFunc) {
			return context.WithCancelCause(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := make()
				var hooks [5]lazyctx.Hook
				var called [6]atomic.Int32
				for i := range hooks {
					hooks[i].Attach(ctx, func() { called[i].Add(1) })
				}
				for _, i := range []int{2, 0, 4} { // in the middle, last, and first
					if !hooks[i].Stop() || hooks[i].Stop() {
						t.Errorf("hook %d: the first stop prevents the call, and no other", i)
					}
				}
				hooks[2].Attach(ctx, func() { called[2].Add(10) })
				cancel(errCause)
				synctest.Wait()
				var late lazyctx.Hook
				late.Attach(ctx, func() { called[5].Add(1) })
				synctest.Wait()
				for i, want := range []int32{0, 1, 10, 1, 0, 1} {
					if n := called[i].Load(); n != want {
						t.Errorf("hook %d was called %d times, want %d", i, n, want)
					}
				}
				if hooks[1].Stop() || late.Stop() {
					t.Error("a hook was stopped after its call")
				}
			})
		})
	}
	if new(lazyctx.Hook).Stop() {
		t.Error("a hook without a context was stopped")
	}
}

// A hook is called, or its Stop reports that it was in time; never both.
func TestHooksRaceWithTheEnd(t *testing.T) {
	for range 2000 {
		c := new(lazyctx.Context)
		var called atomic.Bool
		var hook lazyctx.Hook
		ran := make(chan struct{})
		hook.Attach(c, func() { called.Store(true); close(ran) })
		var all sync.WaitGroup
		all.Go(func() { c.Cancel(errCause) })
		all.Go(func() {
			if c.Err() != nil {
				select {
				case <-c.Done():
				default:
					t.Error("ended, and its channel is open")
				}
			}
		})
		all.Go(func() {
			child, cancel := context.WithCancel(c)
			cancel()
			<-child.Done()
		})
		if stopped := hook.Stop(); !stopped {
			<-ran
		} else {
			defer func() {
				if called.Load() {
					t.Error("called after it was stopped")
				}
			}()
		}
		all.Wait()
		if context.Cause(c) != errCause {
			t.Fatalf("cause %v", context.Cause(c))
		}
	}
}

func BenchmarkContext(b *testing.B) {
	b.ReportAllocs()
	var hook lazyctx.Hook
	f := func() {}
	for b.Loop() {
		c := new(lazyctx.Context)
		hook.Attach(c, f)
		hook.Stop()
		c.Cancel(nil)
	}
}

func BenchmarkStandardContext(b *testing.B) {
	b.ReportAllocs()
	f := func() {}
	for b.Loop() {
		c, cancel := context.WithCancelCause(context.Background())
		context.AfterFunc(c, f)()
		cancel(nil)
	}
}
