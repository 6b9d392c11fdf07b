package admission

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// What runs out between two words of etcd comes back with the next, for all pools, also those that came meanwhile.
func TestRightOfTheDesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runDesk(t, &probes{})
		d.Apply(docs.table("key: pools/a\n" + "---\n" + endpoints("a", 1, "one")))
		d.GrantUntil(time.Now().Add(time.Second))
		if g, err := take(mustPool(t, d, "a")); err != nil || !d.MayGrant() {
			t.Fatal(err)
		} else {
			g.Release()
		}
		time.Sleep(time.Second)
		d.Apply(docs.table("key: pools/b\n" + "---\n" + endpoints("b", 1, "two")))
		granted := make(chan error, 2)
		for _, name := range []string{"a", "b"} {
			go func() {
				g, err := mustPool(t, d, name).Acquire(context.Background(), Request{Account: "acme", MaxWait: time.Minute, MaxExpected: -1})
				if err == nil {
					g.Release()
				}
				granted <- err
			}()
		}
		time.Sleep(5 * time.Second)
		if len(granted) > 0 || d.MayGrant() {
			t.Error("granted without the right")
		}
		d.GrantUntil(time.Now().Add(time.Second))
		for range 2 {
			if err := <-granted; err != nil {
				t.Error(err)
			}
		}
	})
}

// A process may be stopped when a slot has been granted and nobody has used it yet: that is no right to use it afterwards.
func TestGrantBeforeAStop(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that nobody runs while we do
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runDesk(t, &probes{})
		d.Apply(docs.table("key: pools/a\n" + "---\n" + endpoints("a", 1, "one")))
		p := mustPool(t, d, "a")
		first, err := take(p)
		if err != nil {
			t.Fatal(err)
		}
		granted := make(chan error, 1)
		go func() {
			g, err := p.Acquire(context.Background(), Request{Account: "acme", MaxWait: time.Minute, MaxExpected: -1})
			if err == nil {
				g.Release()
			}
			granted <- err
		}()
		synctest.Wait()
		first.Release()
		d.GrantUntil(time.Time{})
		synctest.Wait()
		if l := p.Load(); l.Held != 0 || l.Queued != 1 || len(granted) > 0 {
			t.Errorf("%+v, and %d went on", l, len(granted))
		}
		d.GrantUntil(time.Now().Add(time.Second))
		if err := <-granted; err != nil {
			t.Error(err)
		}
	})
}
