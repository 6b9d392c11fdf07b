package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/permits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// documents builds tables from YAML documents, as a node sees them change.
type documents struct {
	t   testing.TB
	all *document.Set
}

func newDocuments(t testing.TB) *documents { return &documents{t: t, all: document.NewSet()} }

func (d *documents) table(yaml string) *fleet.Table {
	d.t.Helper()
	docs, err := document.SplitFile([]byte(yaml))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, doc := range docs {
		if err := d.all.Put(doc.Key, doc.Value, 1); err != nil {
			d.t.Fatal(err)
		}
	}
	return d.all.Table()
}

// probes answers health checks.
type probes struct {
	mu   sync.Mutex // guards the field below
	fail map[string]error
}

func (p *probes) set(id string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail == nil {
		p.fail = map[string]error{}
	}
	p.fail[id] = err
}

func (p *probes) probe(_ context.Context, e *fleet.Endpoint) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fail[e.ID]
}

// runManager runs a manager until the test's end.
func runManager(t *testing.T, p *probes) *Manager {
	t.Helper()
	d := NewManager("ams", p.probe, slog.New(slog.DiscardHandler))
	run(t, d)
	return d
}

func run(t *testing.T, d *Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func endpoints(pool string, concurrency int, ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&b, "---\nkey: endpoints/ams/%s\nurl: http://%s:8000\npool: %s\nconcurrency: %d\n", id, id, pool, concurrency)
	}
	return strings.TrimPrefix(b.String(), "---\n")
}

func mustPool(t testing.TB, d *Manager, name string) *Pool {
	t.Helper()
	p, ok := d.Pool(name)
	if !ok {
		t.Fatalf("no pool %s", name)
	}
	return p
}

// take acquires without waiting.
func take(p *Pool) (Grant, error) {
	return p.Acquire(context.Background(), permits.Request{Account: "acme", MaxExpected: -1})
}

func mustTake(t testing.TB, p *Pool) Grant {
	t.Helper()
	g, err := take(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPoolsFollowTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table("key: pools/a\nqueue: {limit: 1}\n---\n" + endpoints("a", 2, "one")))
		a := mustPool(t, d, "a")
		if l := a.Load(); l.Limit != 2 || l.Free != 2 {
			t.Fatalf("load %+v, want 2 free of 2", l)
		}
		g, err := take(a)
		if err != nil || g.Endpoint.ID != "one" {
			t.Fatalf("grant %+v, %v", g, err)
		}
		d.Apply(docs.table(endpoints("a", 3, "one", "two")))
		if l := a.Load(); l.Limit != 6 || l.Held != 1 || mustPool(t, d, "a") != a {
			t.Errorf("load %+v after an endpoint came and one grew", l)
		}
		g.Release()
	})
}

// An endpoint that moves to another pool brings only the slots that its running requests leave.
func TestEndpointMovesBetweenPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table(endpoints("a", 3, "one")))
		a := mustPool(t, d, "a")
		var running []Grant
		for range 2 {
			g := mustTake(t, a)
			running = append(running, g)
		}
		d.Apply(docs.table(endpoints("b", 3, "one")))
		b := mustPool(t, d, "b")
		if l := b.Load(); l.Free != 1 {
			t.Errorf("the new pool has %d free slots while 2 of 3 are held under the old one", l.Free)
		}
		if _, err := take(a); err == nil {
			t.Error("the old pool still grants")
		}
		running[0].Release()
		running[1].Release()
		time.Sleep(2 * reconcileInterval)
		if l := b.Load(); l.Free != 3 {
			t.Errorf("the new pool has %d free slots after the old requests ended, want 3", l.Free)
		}
		if err := d.Check(); err != nil {
			t.Error(err)
		}
	})
}

// Whatever its document is called, an engine is its URL.
func TestRenamedEndpointKeepsItsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table(endpoints("a", 2, "one")))
		a := mustPool(t, d, "a")
		g := mustTake(t, a)
		docs.all.Delete("endpoints/ams/one", 2)
		d.Apply(docs.table("key: endpoints/ams/renamed\nurl: http://one:8000\npool: a\nconcurrency: 2\n"))
		if l := a.Load(); l.Held != 1 || l.Free != 1 {
			t.Errorf("load %+v, want one of two held", l)
		}
		g.Release()
	})
}

func TestFailingEndpointIsEjectedAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table(endpoints("a", 1, "one", "two")))
		a := mustPool(t, d, "a")
		one := d.engines["http://one:8000"].endpoint
		two := d.engines["http://two:8000"].endpoint
		for range failuresToEject {
			a.Failed(one, "reset")
			a.Failed(two, "reset")
		}
		if l := a.Load(); l.Limit != 1 {
			t.Errorf("%d slots are left, want 1: half of the pool may be out, and no more", l.Limit)
		}
		time.Sleep(2 * minEjection)
		if l := a.Load(); l.Limit != 2 {
			t.Errorf("%d slots after the ejection's time and a good probe, want 2", l.Limit)
		}
	})
}

func TestDeadEndpointGoesDownAndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		p := &probes{}
		d := runManager(t, p)
		d.Apply(docs.table(endpoints("a", 1, "one")))
		a := mustPool(t, d, "a")
		p.set("one", errors.New("connection refused"))
		time.Sleep(time.Minute)
		if _, err := take(a); err == nil {
			t.Error("a permit for an endpoint that is down")
		}
		if s := a.Stats(); s.Endpoints[0].State != "down" {
			t.Errorf("state %+v", s.Endpoints)
		}
		p.set("one", nil)
		time.Sleep(time.Minute)
		g, err := take(a)
		if err != nil {
			t.Fatalf("no permit though the endpoint is up again: %v", err)
		}
		g.Release()
	})
}

// Who is sent to an engine that is not there learns so from its first probe, and from the next that it has come.
func TestNewEndpointIsProbedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs, p := newDocuments(t), &probes{}
		d := runManager(t, p)
		p.set("two", errors.New("connection refused"))
		d.Apply(docs.table(endpoints("a", 1, "one", "two")))
		a := mustPool(t, d, "a")
		synctest.Wait()
		if l := a.Load(); l.Limit != 1 {
			t.Errorf("load %+v though one of two engines does not answer", l)
		}
		p.set("two", nil)
		time.Sleep(1200 * time.Millisecond)
		if l := a.Load(); l.Limit != 2 {
			t.Errorf("load %+v a second after the engine has begun to answer", l)
		}
	})
}

// How an endpoint is probed may be changed at any time: what was down for nothing but a wrong path is up at once.
func TestChangedHealthCheckIsMadeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := NewManager("ams", func(_ context.Context, e *fleet.Endpoint) error {
			if e.Health.Path != "/right" {
				return errors.New("not found")
			}
			return nil
		}, slog.New(slog.DiscardHandler))
		run(t, d)
		document := func(path string) string {
			return endpoints("a", 1, "one") + "health: {interval: 1h, path: " + path + "}\n"
		}
		d.Apply(docs.table(document("/right")))
		a := mustPool(t, d, "a")
		time.Sleep(time.Second)
		d.Apply(docs.table(document("/wrong")))
		time.Sleep(3 * time.Hour)
		if l := a.Load(); l.Limit != 0 {
			t.Fatalf("load %+v of a pool whose endpoint is down", l)
		}
		d.Apply(docs.table(document("/right")))
		time.Sleep(time.Second)
		if l := a.Load(); l.Limit != 1 {
			t.Errorf("load %+v a second after the path was put right", l)
		}
	})
}

// When the good half of a pool is taken away, the ejected half is all there is.
func TestEjectionIsCappedWhenThePoolShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table(endpoints("a", 1, "one", "two")))
		a := mustPool(t, d, "a")
		synctest.Wait()
		for range failuresToEject {
			a.Failed(d.engines["http://one:8000"].endpoint, "reset")
		}
		if l := a.Load(); l.Limit != 1 {
			t.Fatalf("load %+v with one of two ejected", l)
		}
		docs.all.Delete("endpoints/ams/two", 2)
		d.Apply(docs.all.Table())
		if l := a.Load(); l.Limit != 1 {
			t.Errorf("load %+v, want the slot of the only endpoint there is", l)
		}
	})
}

// A pool that no document speaks of goes away when its last request has ended.
func TestPoolIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table(endpoints("a", 1, "one")))
		g := mustTake(t, mustPool(t, d, "a"))
		docs.all.Delete("endpoints/ams/one", 2)
		d.Apply(docs.all.Table())
		if len(d.Pools()) != 1 {
			t.Error("the pool went away before its request")
		}
		g.Release()
		time.Sleep(2 * reconcileInterval)
		if n := len(d.Pools()); n != 0 {
			t.Errorf("%d pools are left", n)
		}
	})
}

// An engine that is slow to answer its health check while it works is not dead.
func TestSlowWhileBusyIsNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		p := &probes{}
		d := runManager(t, p)
		d.Apply(docs.table(endpoints("a", 2, "one")))
		a := mustPool(t, d, "a")
		g := mustTake(t, a)
		p.set("one", context.DeadlineExceeded)
		time.Sleep(time.Minute)
		if l := a.Load(); l.Limit != 2 {
			t.Errorf("taken out while it was busy: %+v", l)
		}
		g.Release()
		time.Sleep(time.Minute)
		if l := a.Load(); l.Limit != 0 {
			t.Errorf("not taken out though it is idle and silent: %+v", l)
		}
	})
}

// A probe that did not come about says nothing, neither well nor ill.
func TestNotAskedSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		p := &probes{}
		d := runManager(t, p)
		d.Apply(docs.table(endpoints("a", 2, "one")))
		a := mustPool(t, d, "a")
		p.set("one", fmt.Errorf("%w: too many open files", ErrNotChecked))
		time.Sleep(time.Minute)
		if l := a.Load(); l.Limit != 2 {
			t.Errorf("taken out though nobody asked it: %+v", l)
		}
		p.set("one", errors.New("refused"))
		time.Sleep(time.Minute)
		p.set("one", ErrNotChecked)
		time.Sleep(time.Minute)
		if l := a.Load(); l.Limit != 0 {
			t.Errorf("brought back though nobody asked it: %+v", l)
		}
	})
}

func TestCloseQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.CloseQueues()
		d.Apply(docs.table(endpoints("a", 1, "one")))
		a := mustPool(t, d, "a")
		g, err := take(a)
		if err != nil {
			t.Fatalf("a slot was free: %v", err)
		}
		var refused *permits.Refusal
		if _, err := take(a); !errors.As(err, &refused) || refused.Reason != permits.Draining {
			t.Errorf("who would have to wait hears %v", err)
		}
		g.Release()
	})
}

func TestDrainRefusesEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := newDocuments(t)
		d := runManager(t, &probes{})
		d.Apply(docs.table(endpoints("a", 1, "one")))
		d.Drain()
		var refused *permits.Refusal
		if _, err := take(mustPool(t, d, "a")); !errors.As(err, &refused) || refused.Reason != permits.Draining {
			t.Errorf("a draining manager said %v", err)
		}
		d.Apply(docs.table(endpoints("b", 1, "two")))
		if _, err := take(mustPool(t, d, "b")); !errors.As(err, &refused) || refused.Reason != permits.Draining {
			t.Errorf("a pool that came while draining said %v", err)
		}
	})
}
