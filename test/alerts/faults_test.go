package alerts_test

import (
	"context"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/etcdtest"
	"colonnade/internal/faultproxy"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// calm is how long a fleet has been well before its fault, and lasting how long the fault lasts.
const (
	calm    = 10 * time.Minute
	lasting = 5 * time.Minute
)

// fault records a fleet before and during a fault.
type fault struct {
	*fleettest.Fleet
	entries        map[string]string // admin addresses of further entries
	before, during []*export
	silence        time.Time // see period
}

// start begins to record a fleet that is well, and has served a request.
func start(f *fleettest.Fleet) *fault {
	f.T.Helper()
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 {
		f.T.Fatalf("answer %d: %s", a.Status, a.Body)
	}
	return startUnused(f)
}

// startUnused begins to record a fleet that may not have served anything.
func startUnused(f *fleettest.Fleet) *fault {
	f.T.Helper()
	return &fault{Fleet: f, entries: map[string]string{}, before: []*export{scrape(f, nil)}}
}

// scrape records what the nodes export during the fault.
func (r *fault) scrape() *export {
	r.T.Helper()
	e := scrape(r.Fleet, r.entries)
	r.during = append(r.during, e)
	return e
}

// expect expects that no alert fires before the fault, and exactly these after it has lasted.
func (r *fault) expect(t *testing.T, alerts ...string) {
	t.Helper()
	samples := stretch(period{length: calm, exports: r.before}, period{lasting, r.during, r.silence})
	evaluate(t, samples, firing(calm-interval), firing(calm+lasting-interval, alerts...))
}

func TestEngineKilled(t *testing.T) {
	t.Parallel()
	r := start(fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), ""))
	if err := r.End("engine ams/sim-1"); err != nil {
		t.Fatal(err)
	}
	r.Chat(fleettest.ChatBody(1, false)) // more would be failures of which another alert speaks
	testkit.WaitFor(t, "the endpoint to be out", func() bool { return r.EndpointState(r.Engines[0].URL) != "up" })
	r.scrape()
	r.expect(t, "ColonnadeEndpointDown", "ColonnadePoolWithoutSlots")
}

func TestQueueFullForAMinute(t *testing.T) {
	t.Parallel()
	r := start(fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "key: pools/demo\nqueue: {limit: 1, per_account: 5, max_wait: 60s}"))
	blockers := r.BlockSlots(1)
	waiting := r.Enqueue(1)
	refuse := func() *export {
		if a := r.Chat(fleettest.ChatBody(1, false)); a.Status != 429 {
			t.Errorf("answer %d: %s", a.Status, a.Body)
		}
		return r.scrape()
	}
	once := refuse()
	refuse()
	waiting.Close()
	for _, b := range blockers {
		b.Close()
	}
	r.expect(t, "ColonnadeQueueFull")
	// One refusal is no full queue.
	evaluate(t, stretch(period{length: calm, exports: r.before}, period{length: lasting, exports: []*export{once}}), firing(calm+2*time.Minute))
}

func TestColoLost(t *testing.T) {
	t.Parallel()
	c := onebox.Config{Colos: []string{"ams", "fra"}, Latency: onebox.Latency{{"ams", "fra"}: time.Millisecond}, Engine: fleettest.QuickEngine(2)}
	r := start(fleettest.Start(t, c, "key: models/far\npool: demo\nrouting: {steps: [{colos: [fra]}]}"))
	link := r.Proxy(onebox.EntryPlace, "fra-1")
	link.Refuse()
	testkit.WaitFor(t, "the colo to be unreached", func() bool {
		link.InjectOpen(faultproxy.Fault{Kind: faultproxy.Reset}) // a connection of an earlier ping or request would serve on
		r.Chat(`{"model":"far","max_tokens":1,"messages":[]}`)
		return r.Metric(r.Entry.Admin, `colonnade_colo_unreached{colo="fra"}`) == 1
	})
	r.scrape()
	r.expect(t, "ColonnadeColoUnreached")
}

func TestNodeEnded(t *testing.T) {
	t.Parallel()
	r := start(fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(2)}, ""))
	r.EndNode("fra-1")()
	testkit.WaitFor(t, "the entry to know", func() bool {
		return r.Metric(r.Entry.Admin, `colonnade_problems{kind="colo_without_server",severity="error"}`) == 1
	})
	r.scrape()
	r.expect(t, "ColonnadeNodeDown", "ColonnadeProblem") // no server of its colo is left
}

// A model whose pool has no endpoint is wrong by the documents alone: all nodes are well, and nothing else shows it.
func TestModelWithoutEndpoint(t *testing.T) {
	t.Parallel()
	r := start(fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), ""))
	r.Operator().Put("key: models/lost\npool: mistyped")
	testkit.WaitFor(t, "the problem to be counted", func() bool {
		return r.Metric(r.Entry.Admin, `colonnade_problems{kind="model_without_endpoint",severity="error"}`) == 1
	})
	r.scrape()
	r.expect(t, "ColonnadeProblem")
}

// An entry with another fleet key gets nothing from the colos.
func TestEntryNotBelieved(t *testing.T) {
	t.Parallel()
	r := start(fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), ""))
	other := startForeignEntry(t, r.Fleet)
	r.entries["entry-2"] = other.Admin
	refuse := func() {
		answer, err := r.Client.Post("http://"+other.Address+fleettest.ChatPath, "application/json", strings.NewReader(fleettest.ChatBody(1, false)))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode < 500 {
			t.Errorf("an entry with another fleet key is believed: %d", answer.StatusCode)
		}
		r.scrape()
	}
	refuse()
	refuse()
	r.expect(t, "ColonnadeEntryNotBelieved")
}

// startForeignEntry runs an entry with a fleet key of its own, until the end of the test.
func startForeignEntry(t *testing.T, f *fleettest.Fleet) node.Running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan node.Running, 1), make(chan error, 1)
	go func() {
		ended <- node.RunEntry(ctx, node.EntryConfig{Open: true, Config: node.Config{
			Node: "entry-2", Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Etcd: []string{f.Etcd}, Keys: hop.RandomKeys(),
			Drain: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}}, func(r node.Running) { started <- r })
	}()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the entry ended with: %v", err)
		}
	})
	t.Cleanup(end)
	select {
	case r := <-started:
		return r
	case err := <-ended:
		t.Fatalf("the entry has not started: %v", err)
	case <-time.After(testkit.Timeout):
		t.Fatal("the entry has not started in time")
	}
	return node.Running{}
}

func TestCertificateExpiring(t *testing.T) {
	t.Parallel()
	lives := func(days int) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Duration(days) * 24 * time.Hour) }
	}
	const longLived, shortLived = 90, 3
	secure := fleettest.StartSecure(t, fleettest.OneColo(fleettest.QuickEngine(2)), "", func(f *fleettest.SecureFleet) {
		f.WebFiles.Put(f.WebCA, "", lives(longLived))
		for uri, files := range f.Nodes {
			files.Put(f.FleetCA, uri, lives(longLived))
		}
	})
	r := start(secure.Fleet)
	expires := `colonnade_tls_certificate_expiry_timestamp_seconds{listener="public"}`
	old := r.Metric(r.Entry.Admin, expires)
	secure.WebFiles.Put(secure.WebCA, "", lives(shortLived))
	testkit.WaitFor(t, "the certificate to be read again", func() bool { return r.Metric(r.Entry.Admin, expires) != old })
	r.scrape()
	r.expect(t, "ColonnadeCertificateExpiring")
}

func TestEventsDropped(t *testing.T) {
	t.Parallel()
	r := startUnused(fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), ""))
	for _, n := range []node.Running{r.Entry, r.Colos[0].Running} {
		if err := os.RemoveAll(filepath.Join(n.DataDir, "events", n.Node)); err != nil {
			t.Fatal(err)
		}
	}
	r.scrape()
	r.Chat(fleettest.ChatBody(1, false))
	testkit.WaitFor(t, "events to be dropped", func() bool {
		return r.Metric(r.Entry.Admin, `colonnade_events_dropped_total{segment="requests"}`) > 0 &&
			r.Metric(r.Colos[0].Admin, `colonnade_events_dropped_total{segment="billing"}`) > 0
	})
	r.scrape()
	r.expect(t, "ColonnadeBillingEventsDropped", "ColonnadeEventsDropped")
}

func TestEtcdAway(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t)
	c := fleettest.OneColo(fleettest.QuickEngine(2))
	c.EtcdURL = "http://" + store.Address
	r := start(fleettest.Start(t, c, ""))
	store.Stop()
	t.Cleanup(func() { store.Restart(t) })
	r.silence = time.Now()
	r.scrape()
	testkit.WaitFor(t, "silence", func() bool { return time.Since(r.silence) > 200*time.Millisecond })
	r.scrape()
	r.expect(t, "ColonnadeEtcdAway")
}

func TestEndpointFailing(t *testing.T) {
	t.Parallel()
	r := start(fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(2)), ""))
	r.scrape()
	for range 4 { // fewer in a row than eject it
		r.InjectFault(simengine.FaultCutAtChunk, 2)
		for range 3 {
			r.Chat(fleettest.ChatBody(8, true))
		}
	}
	r.scrape()
	r.expect(t, "ColonnadeEndpointFailing")
}
