package durability_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
	"colonnade/onebox"
)

// A model and its alias appear at one moment and are gone at another. Requests without a pause see nothing in between, though the
// nodes learn of it one after another.
func TestModelAddedAndRemoved(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(8)}, "")
	f.WatchShared(60)
	o := f.Operator()
	c := f.Drive(4, fleettest.AlternatingBodies("demo-chat"))
	var ended atomic.Bool
	var asking sync.WaitGroup
	var seen [2][]int
	var last [2]atomic.Int64
	for i, name := range []string{"late", "nick"} {
		asking.Go(func() {
			for !ended.Load() {
				a, err := f.Post(context.Background(), "/chat/completions", fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[]}`, name))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				if n := len(seen[i]); n == 0 || seen[i][n-1] != a.Status {
					seen[i] = append(seen[i], a.Status)
				}
				last[i].Store(int64(a.Status))
			}
		})
	}
	are := func(status int64) func() bool {
		return func() bool { return last[0].Load() == status && last[1].Load() == status }
	}
	rounds := testkit.AtScale(5, 200)
	for range rounds {
		testkit.WaitFor(t, "the model to be unknown", are(404))
		o.Put("key: models/late\npool: demo\nupstream_name: demo-chat\naliases: [nick]")
		testkit.WaitFor(t, "the model to be served", are(200))
		o.Remove("models/late")
	}
	testkit.WaitFor(t, "the model to be unknown", are(404))
	ended.Store(true)
	asking.Wait()
	want := []int{404}
	for range rounds {
		want = append(want, 200, 404)
	}
	for i, name := range []string{"late", "nick"} {
		if !slices.Equal(seen[i], want) {
			t.Errorf("%s was answered with %v, want %v", name, seen[i], want)
		}
	}
	c.Check()
}

// An alias moves from model to model by the rules of precedence, and no request that uses it fails.
func TestAliasMoves(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(8)}, "")
	f.WatchShared(40)
	o := f.Operator()
	c := f.Drive(4, fleettest.AlternatingBodies("default"))
	servedBy := func(upstream string) {
		t.Helper()
		f.ExpectSoon("default to be "+upstream, func() bool {
			var body struct{ Model string }
			a := f.Chat(`{"model":"default","max_tokens":1,"messages":[]}`)
			return json.Unmarshal([]byte(a.Body), &body) == nil && body.Model == upstream
		})
	}
	other := func(key string) string {
		return "---\nkey: " + key + "\npool: demo\nupstream_name: demo-embed\naliases: [default]\n"
	}
	servedBy("demo-chat")
	o.Put(other("models/zzz"))
	f.ExpectEverywhere("the conflict", func(_ string, p fleettest.FleetPage) bool {
		return len(p.Conflicts) == 1 && p.Conflicts[0]["loser"] == "models/zzz" && p.Conflicts[0]["value"] == "default"
	})
	servedBy("demo-chat")
	o.Put(other("models/aaa"))
	servedBy("demo-embed")
	o.Remove("models/aaa")
	servedBy("demo-chat")
	o.Put("key: models/default\npool: demo\nupstream_name: demo-embed") // a name beats every alias
	servedBy("demo-embed")
	o.Remove("models/default", "models/zzz")
	servedBy("demo-chat")
	f.ExpectEverywhere("no conflict", func(_ string, p fleettest.FleetPage) bool { return len(p.Conflicts) == 0 })
	c.Check()
}

// A flow decides where requests go as soon as it is written. A bad version of it changes nothing.
func TestFlowChanges(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a second colo")
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(8)}, "key: models/flowing\npool: demo\nupstream_name: demo-chat\nrouting: {algorithm: flow}\n")
	o := f.Operator()
	servedBy := func(colo string) {
		t.Helper()
		f.ExpectSoon("the flow to lead to "+colo, func() bool {
			return f.Chat(`{"model":"flowing","max_tokens":1,"messages":[]}`).Header.Get("x-colonnade-colo") == colo
		})
	}
	for range 2 {
		o.Put("key: flows/flowing\nregions: {'*': {fra: 1}}")
		servedBy("fra")
		o.Put("key: flows/flowing\nregions: {'*': {ams: 1}}")
		servedBy("ams")
	}
	atEntry := func(holds func(p fleettest.FleetPage) bool) func() bool {
		return func() bool { return holds(f.FleetPage(f.Entry.Admin)) }
	}
	o.Put("key: flows/flowing\nregions: {'*': {fra: 0}}")
	f.ExpectSoon("the bad flow to be rejected", atEntry(func(p fleettest.FleetPage) bool {
		return len(p.Rejected) == 1 && p.Rejected[0] == fleettest.Rejection{Key: "flows/flowing", LastGood: true}
	}))
	servedBy("ams")
	o.Remove("flows/flowing")
	f.ExpectSoon("the flow to be gone", atEntry(func(p fleettest.FleetPage) bool {
		return len(p.Rejected) == 0 && p.Field("flows/flowing", "regions") == nil
	}))
}

// A running request keeps the timeouts with which it began.
func TestTimeoutsOfRunningRequests(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(simengine.Config{Slots: 4, TTFT: time.Second, ITL: 20 * time.Millisecond}), "")
	f.WatchShared(8)
	o := f.Operator()
	running := []*wiretest.Conn{f.BeginChat(fleettest.ChatBody(10, true)), f.BeginChat(fleettest.ChatBody(10, false))}
	testkit.WaitFor(t, "both to reach the engine", func() bool { return fleettest.InFlight(f.Engine("ams")) == 2 })
	o.Put("key: models/demo-chat\npool: demo\ntimeouts: {first_byte: 50ms, idle: 1ms, total: 100ms}")
	f.ExpectEverywhere("the timeouts", func(_ string, p fleettest.FleetPage) bool {
		return p.Field("models/demo-chat", "timeouts", "total") == "100ms"
	})
	for _, body := range []string{fleettest.ChatBody(10, true), fleettest.ChatBody(10, false)} {
		if a := f.Chat(body); a.Status != 504 {
			t.Errorf("a new request: %d %q, want 504", a.Status, a.Body)
		}
	}
	for _, w := range running {
		w.ExpectProperEnd()
	}
	o.Put("key: models/demo-chat\npool: demo")
	f.ExpectEverywhere("the old timeouts", func(_ string, p fleettest.FleetPage) bool {
		return p.Field("models/demo-chat", "timeouts", "total") == "10m0s"
	})
	if a := f.Chat(fleettest.ChatBody(1, true)); a.Status != 200 {
		t.Errorf("with the old timeouts again: %d %q", a.Status, a.Body)
	}
}

// A model's steps, a colo's region and a colo's state decide where requests go. Those that run or wait elsewhere are served
// there.
func TestRoutingChanges(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a second colo")
	// One colo a step, since a step puts colos last that were full a moment ago.
	const steps = "key: models/demo-chat\npool: demo\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}"
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.SlowEngine(2)}, "key: pools/demo\nqueue: {max_wait: 60s, spill_wait: 60s}\n---\n"+steps)
	f.WatchShared(60)
	o := f.Operator()
	c := f.Drive(2, fleettest.AlternatingBodies("demo-chat"))
	goTo := func(documents, colo string) {
		t.Helper()
		revision := o.Put(documents)
		f.ExpectSoon("requests to go to "+colo, func() bool { return f.FleetPage(f.Entry.Admin).Revision >= revision })
		for range 5 {
			if a := f.Chat(fleettest.ChatBody(1, false), "x-colonnade-queue", "wait"); a.Status != 200 || a.Header.Get("x-colonnade-colo") != colo {
				t.Errorf("answer %d from %q, want it from %s", a.Status, a.Header.Get("x-colonnade-colo"), colo)
			}
		}
	}
	for _, change := range []struct{ documents, colo string }{
		{"key: models/demo-chat\npool: demo\nrouting: {steps: [{colos: [fra]}]}", "fra"},
		{"key: models/demo-chat\npool: demo\nrouting: {steps: [{regions: [region-1]}]}", "ams"},
		{"key: colos/ams\nregion: region-2\n---\nkey: colos/fra\nregion: region-1", "fra"},
		{steps, "ams"},
		{"key: colos/ams\nregion: region-1\nstate: draining", "fra"},
		{"key: colos/ams\nregion: region-1\nstate: active", "ams"},
		{"key: colos/ams\nregion: region-1\nstate: disabled", "fra"},
		{"key: colos/ams\nregion: region-1\nstate: active", "ams"},
	} {
		// More than the colo has slots, so that some wait.
		var before []*wiretest.Conn
		for range 5 {
			before = append(before, f.BeginChat(fleettest.ChatBody(20, true), "x-colonnade-queue: wait"))
		}
		goTo(change.documents, change.colo)
		for _, w := range before {
			w.ExpectProperEnd()
			w.Close()
		}
	}
	c.Check()
}

// max_body and retries are those of the table that a request took.
func TestModelLimitsChange(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engines: 2, Engine: fleettest.QuickEngine(4)}, "")
	f.WatchShared(40)
	o := f.Operator()
	big := strings.Replace(fleettest.ChatBody(1, false), "hello", strings.Repeat("x", 40<<10), 1)
	c := f.Drive(2, fleettest.AlternatingBodies("demo-chat"))
	both := f.Drive(2, func(int) string { return big }, 413)
	is := func(body string, status int) {
		t.Helper()
		f.ExpectSoon(fmt.Sprintf("status %d", status), func() bool { return f.Chat(body).Status == status })
	}
	for range testkit.AtScale(2, 50) {
		o.Put("key: defaults\nmodel: {max_body: 20KiB}")
		is(big, 413)
		o.Put("key: defaults\nmodel: {max_body: 100KiB}")
		is(big, 200)
		o.Put("key: models/demo-chat\npool: demo\nmax_body: 30KiB")
		is(big, 413)
		o.Put("key: models/demo-chat\npool: demo")
		is(big, 200)
	}
	c.Check()
	both.Check()
	o.Put("key: defaults\nmodel: {retry: {errors: 0}}")
	f.ExpectEverywhere("no retries", func(_ string, p fleettest.FleetPage) bool {
		return p.Field("models/demo-chat", "retry", "errors") == 0.
	})
	f.Engines[0].Simulated.SetFault(simengine.Fault{Fault: simengine.FaultError500, Count: 1})
	f.Engines[1].Simulated.SetFault(simengine.Fault{Fault: simengine.FaultError500, Count: 1})
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 502 {
		t.Errorf("without retries: %d %q", a.Status, a.Body)
	}
	o.Remove("defaults")
	f.ExpectEverywhere("retries", func(_ string, p fleettest.FleetPage) bool {
		return p.Field("models/demo-chat", "retry", "errors") == 3.
	})
	if a := f.Chat(fleettest.ChatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-attempts") != "2" {
		t.Errorf("with retries: %d after %s attempts", a.Status, a.Header.Get("x-colonnade-attempts"))
	}
}

// An account and its key are accepted and refused at once when their document changes; running requests continue.
func TestAccountChanges(t *testing.T) {
	t.Parallel()
	stays, stayer := fleettest.AccountWithKey("stays", "")
	comes, comer := fleettest.AccountWithKey("comes", "")
	f := fleettest.StartClosed(t, onebox.Config{Engine: fleettest.SlowEngine(8)}, stays)
	f.Key = strings.TrimPrefix(stayer, "Bearer ")
	f.WatchShared(40)
	o := f.Operator()
	c := f.Drive(2, fleettest.AlternatingBodies("demo-chat"))
	is := func(status int) {
		t.Helper()
		f.ExpectSoon(fmt.Sprintf("status %d", status), func() bool { return f.Chat(fleettest.ChatBody(1, false), "Authorization", comer).Status == status })
	}
	is(401)
	o.Put(comes)
	is(200)
	running := f.LongStream("demo-chat", "Authorization: "+comer)
	o.Put("key: accounts/comes\nlimits: {concurrent: 0}")
	is(429)
	o.Put("key: accounts/comes\nmodels: [demo-embed]")
	is(404)
	o.Put("key: accounts/comes\nmodels: [demo-chat]\nweight: 7\npriority: batch")
	is(200)
	o.Put("key: accounts/comes\nmodels: [demo-embed]")
	is(404)
	o.Remove("accounts/comes") // it has the defaults then
	is(200)
	o.Remove("keys/" + strings.Split(comer, "_")[1])
	is(401)
	running.ExpectProperEnd()
	c.Check()
}
