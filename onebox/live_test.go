package onebox_test

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

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// slowly is an engine whose longStream goes on for a second.
func slowly(slots int) simengine.Config {
	return simengine.Config{Slots: slots, TTFT: time.Millisecond, ITL: 5 * time.Millisecond}
}

// A model, and its alias, are there from one moment on and gone from another: nobody who asks without a pause sees anything
// else, though the nodes learn of it one after another.
func TestModelsComeAndGo(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{Engine: quick(8)}, "")
	f.watchBeside(60)
	o := f.operator()
	c := f.drive(4, mixed("demo-chat"))
	var ended atomic.Bool
	var asking sync.WaitGroup
	var seen [2][]int
	var last [2]atomic.Int64
	for i, name := range []string{"late", "nick"} {
		asking.Go(func() {
			for !ended.Load() {
				a, err := f.post(context.Background(), "/chat/completions", fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[]}`, name))
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
	rounds := testkit.AtScale(10, 200)
	for range rounds {
		testkit.WaitFor(t, "the model to be unknown", are(404))
		o.put("key: models/late\npool: demo\nupstream_name: demo-chat\naliases: [nick]")
		testkit.WaitFor(t, "the model to be served", are(200))
		o.remove("models/late")
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
	c.check()
}

// An alias goes from one model to another, by the rules, and no request that uses it fails.
func TestAliasesMove(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{Engine: quick(8)}, "")
	f.watchBeside(40)
	o := f.operator()
	c := f.drive(4, mixed("default"))
	servedBy := func(upstream string) {
		t.Helper()
		f.soon("default to be "+upstream, func() bool {
			var body struct{ Model string }
			a := f.chat(`{"model":"default","max_tokens":1,"messages":[]}`)
			return json.Unmarshal([]byte(a.Body), &body) == nil && body.Model == upstream
		})
	}
	other := func(key string) string {
		return "---\nkey: " + key + "\npool: demo\nupstream_name: demo-embed\naliases: [default]\n"
	}
	servedBy("demo-chat")
	o.put(other("models/zzz"))
	f.everywhere("the conflict", func(_ string, p page) bool {
		return len(p.Conflicts) == 1 && p.Conflicts[0]["loser"] == "models/zzz" && p.Conflicts[0]["value"] == "default"
	})
	servedBy("demo-chat")
	o.put(other("models/aaa"))
	servedBy("demo-embed")
	o.remove("models/aaa")
	servedBy("demo-chat")
	o.put("key: models/default\npool: demo\nupstream_name: demo-embed") // a name beats every alias
	servedBy("demo-embed")
	o.remove("models/default", "models/zzz")
	servedBy("demo-chat")
	f.everywhere("no conflict", func(_ string, p page) bool { return len(p.Conflicts) == 0 })
	c.check()
}

// What runs keeps the timeouts that it began with.
func TestTimeoutsAreThoseOfTheBeginning(t *testing.T) {
	t.Parallel()
	f := startFleet(t, oneColo(simengine.Config{Slots: 4, TTFT: time.Second, ITL: 20 * time.Millisecond}), "")
	f.watchBeside(8)
	o := f.operator()
	running := []*wire{f.begin(chatBody(10, true)), f.begin(chatBody(10, false))}
	testkit.WaitFor(t, "both to be at the engine", func() bool { return inHand(f.engine("ams")) == 2 })
	o.put("key: models/demo-chat\npool: demo\ntimeouts: {first_byte: 50ms, idle: 1ms, total: 100ms}")
	f.everywhere("the timeouts", func(_ string, p page) bool { return p.of("models/demo-chat", "timeouts", "total") == "100ms" })
	for _, body := range []string{chatBody(10, true), chatBody(10, false)} {
		if a := f.chat(body); a.Status != 504 {
			t.Errorf("a new request: %d %q, want 504", a.Status, a.Body)
		}
	}
	for _, w := range running {
		w.endsWell()
	}
	o.put("key: models/demo-chat\npool: demo")
	f.everywhere("the old timeouts", func(_ string, p page) bool { return p.of("models/demo-chat", "timeouts", "total") == "10m0s" })
	if a := f.chat(chatBody(1, true)); a.Status != 200 {
		t.Errorf("with the old timeouts again: %d %q", a.Status, a.Body)
	}
}

// Where requests go is changed by a model's steps and by the state of a colo. What runs or waits there is served there.
func TestRoutingIsChanged(t *testing.T) {
	t.Parallel()
	// A step for each, since within one step those that were full a moment ago come last.
	const steps = "key: models/demo-chat\npool: demo\nrouting: {steps: [{colos: [ams]}, {colos: [fra]}]}"
	f := startFleet(t, onebox.Config{Engine: slowly(2)}, "key: pools/demo\nqueue: {max_wait: 60s}\n---\n"+steps)
	f.watchBeside(60)
	o := f.operator()
	c := f.drive(2, mixed("demo-chat"))
	goTo := func(documents, colo string) {
		t.Helper()
		revision := o.put(documents)
		f.soon("requests to go to "+colo, func() bool { return f.page(f.Entry.Admin).Revision >= revision })
		for range 5 {
			if a := f.chat(chatBody(1, false), "x-colonnade-queue", "wait"); a.Status != 200 || a.Header.Get("x-colonnade-colo") != colo {
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
		// More than ams has slots, so that some of them wait.
		var before []*wire
		for range 5 {
			before = append(before, f.begin(chatBody(20, true), "x-colonnade-queue: wait"))
		}
		goTo(change.documents, change.colo)
		for _, w := range before {
			w.endsWell()
			w.Close()
		}
	}
	c.check()
}

// The largest body, and how often a request is tried, are those of the table that it took.
func TestModelsLimitsAreChanged(t *testing.T) {
	t.Parallel()
	f := startFleet(t, onebox.Config{Colos: []string{"ams"}, Engines: 2, Engine: quick(4)}, "")
	f.watchBeside(40)
	o := f.operator()
	big := strings.Replace(chatBody(1, false), "hello", strings.Repeat("x", 40<<10), 1)
	c := f.drive(2, mixed("demo-chat"))
	both := f.drive(2, func(int) string { return big }, 413)
	is := func(body string, status int) {
		t.Helper()
		f.soon(fmt.Sprintf("status %d", status), func() bool { return f.chat(body).Status == status })
	}
	for range testkit.AtScale(5, 50) {
		o.put("key: defaults\nmodel: {max_body: 20KiB}")
		is(big, 413)
		o.put("key: defaults\nmodel: {max_body: 100KiB}")
		is(big, 200)
		o.put("key: models/demo-chat\npool: demo\nmax_body: 30KiB")
		is(big, 413)
		o.put("key: models/demo-chat\npool: demo")
		is(big, 200)
	}
	c.check()
	both.check()
	o.put("key: defaults\nmodel: {retry: {errors: 0}}")
	f.everywhere("no retries", func(_ string, p page) bool { return p.of("models/demo-chat", "retry", "errors") == 0. })
	f.Engines[0].Simulated.SetFault(simengine.Fault{Fault: simengine.FaultError500, Count: 1})
	f.Engines[1].Simulated.SetFault(simengine.Fault{Fault: simengine.FaultError500, Count: 1})
	if a := f.chat(chatBody(1, false)); a.Status != 502 {
		t.Errorf("without retries: %d %q", a.Status, a.Body)
	}
	o.remove("defaults")
	f.everywhere("retries", func(_ string, p page) bool { return p.of("models/demo-chat", "retry", "errors") == 3. })
	if a := f.chat(chatBody(1, false)); a.Status != 200 || a.Header.Get("x-colonnade-attempts") != "2" {
		t.Errorf("with retries: %d after %s attempts", a.Status, a.Header.Get("x-colonnade-attempts"))
	}
}

// An account is there with its key, and gone, at once; what it has running goes on.
func TestAccountsComeAndGo(t *testing.T) {
	t.Parallel()
	stays, stayer := keyed("stays", "")
	comes, comer := keyed("comes", "")
	f := startClosedFleet(t, onebox.Config{Engine: slowly(8)}, stays)
	f.key = strings.TrimPrefix(stayer, "Bearer ")
	f.watchBeside(40)
	o := f.operator()
	c := f.drive(2, mixed("demo-chat"))
	is := func(status int) {
		t.Helper()
		f.soon(fmt.Sprintf("status %d", status), func() bool { return f.chat(chatBody(1, false), "Authorization", comer).Status == status })
	}
	is(401)
	o.put(comes)
	is(200)
	running := f.longStream("demo-chat", "Authorization: "+comer)
	o.put(comes + "limits: {concurrent: 0}")
	is(429)
	o.put(comes + "models: []")
	is(403)
	o.put(comes + "models: [demo-chat]\nweight: 7\npriority: batch")
	is(200)
	o.remove("accounts/comes")
	is(401)
	running.endsWell()
	c.check()
}
