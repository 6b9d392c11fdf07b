package admission

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

// What runs out between two words of etcd comes back with the next, for all pools, also those that came meanwhile.
func TestFenceOfAllPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table("key: pools/a\n" + "---\n" + endpoints("a", 1, "one")))
		d.SetFence(time.Now().Add(time.Second))
		if g, err := take(mustPool(t, d, "a")); err != nil || !d.GrantsEnabled() {
			t.Fatal(err)
		} else {
			g.Release()
		}
		time.Sleep(time.Second)
		d.Apply(docs.table("key: pools/b\n" + "---\n" + endpoints("b", 1, "two")))
		granted := make(chan error, 2)
		for _, name := range []string{"a", "b"} {
			go func() {
				g, err := mustPool(t, d, name).Acquire(context.Background(), permits.Request{Account: "acme", MaxWait: time.Minute, MaxExpected: -1})
				if err == nil {
					g.Release()
				}
				granted <- err
			}()
		}
		time.Sleep(5 * time.Second)
		if len(granted) > 0 || d.GrantsEnabled() {
			t.Error("granted without the right")
		}
		d.SetFence(time.Now().Add(time.Second))
		for range 2 {
			if err := <-granted; err != nil {
				t.Error(err)
			}
		}
	})
}

// stopAtGrant takes the right away when a request has been granted a slot, after it waited for some seconds, and has not
// run since. The pool's one slot is then free.
func stopAtGrant(t *testing.T, waits time.Duration) (d *Manager, p *Pool, told chan error, queued chan time.Duration) {
	t.Helper()
	d = runManager(t, &probes{})
	d.Apply(newDocuments(t).table("key: pools/a\n" + "---\n" + endpoints("a", 1, "one")))
	p = mustPool(t, d, "a")
	first, err := take(p)
	if err != nil {
		t.Fatal(err)
	}
	told, queued = make(chan error, 1), make(chan time.Duration, 1)
	go func() {
		g, err := p.Acquire(context.Background(), permits.Request{Account: "acme", MaxWait: 8 * time.Second, MaxExpected: -1})
		if err == nil {
			queued <- g.Queued()
			g.Release()
		}
		told <- err
	}()
	time.Sleep(waits)
	synctest.Wait()
	first.Release()
	d.SetFence(time.Time{})
	synctest.Wait()
	return d, p, told, queued
}

// A process may be stopped when a slot has been granted and nobody has used it yet: that is no right to use it afterwards.
func TestGrantBeforeAStop(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that nobody runs while we do
	synctest.Test(t, func(t *testing.T) {
		d, p, told, queued := stopAtGrant(t, 3*time.Second)
		if l := p.Load(); l.Held != 0 || l.Queued != 1 || len(told) > 0 {
			t.Errorf("%+v, and %d went on", l, len(told))
		}
		time.Sleep(2 * time.Second)
		d.SetFence(time.Now().Add(time.Second))
		if err := <-told; err != nil {
			t.Fatal(err)
		}
		if took := <-queued; took != 5*time.Second {
			t.Errorf("it says that it waited for %v, want both waits", took)
		}
	})
}

// What it has waited before the stop counts against what it may wait in all.
func TestWaitGoesOnAfterAStop(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, _, told, _ := stopAtGrant(t, 3*time.Second)
		var refused *permits.Refusal
		if err := <-told; !errors.As(err, &refused) || refused.Reason != permits.QueueTimeout {
			t.Errorf("told %v", err)
		}
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("waited for %v", took)
		}
	})
}
