package capacity_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
)

// Under load, an endpoint and then a colo server are taken out and back through the admin API. No request fails, and no engine ever has more than
// its slots.
func TestMaintenanceUnderLoad(t *testing.T) {
	t.Parallel()
	c := fleettest.SeveralServers(2, fleettest.QuickEngine(3))
	c.Engines, c.AdminTokens = 2, fleettest.AdminTokens(t)
	f := fleettest.Start(t, c, fleettest.LongQueue)
	f.WatchShared(60)
	traffic := f.Drive(8, fleettest.AlternatingBodies("demo-chat"))
	traffic.WaitServed(20)

	first, second := f.Engines[0], f.Engines[1]
	path := "/endpoints/ams/" + first.ID
	f.MustCallAPI(f.Entry.Admin, "POST", path+"/drain", "")
	f.ExpectSoon("the endpoint to drain", func() bool {
		e := f.Endpoint(first.URL)
		return e.State == "draining" && e.Held == 0 && fleettest.InFlight(first.Simulated) == 0
	})
	before := first.Simulated.Stats().Requests
	traffic.WaitServed(20)
	if n := first.Simulated.Stats().Requests - before; n > 0 {
		t.Errorf("while it drains, the engine got %d requests", n)
	}
	if p := f.Pool("ams", "demo"); p.Limit != 3 {
		t.Errorf("while an endpoint drains, the pool has %d slots", p.Limit)
	}
	if status, answer := f.CallAPI(f.Entry.Admin, "POST", "/endpoints/ams/"+second.ID+"/drain", ""); status != 409 {
		t.Errorf("the last endpoint that serves drains without force: %d %v", status, answer)
	}
	f.MustCallAPI(f.Entry.Admin, "POST", path+"/undrain", "")
	f.ExpectSoon("the endpoint to get requests again", func() bool { return first.Simulated.Stats().Requests > before })

	home := f.Home("ams", "demo")
	state := f.MustCallAPI(home.Admin, "POST", "/node/drain", "")
	if state["state"] != "draining" || f.IsReady(home.Admin) {
		t.Errorf("while it drains, the server says %v, ready: %v", state, f.IsReady(home.Admin))
	}
	f.ExpectSoon("the server to have nothing", func() bool {
		state := f.MustCallAPI(home.Admin, "GET", "/node", "")
		return state["in_flight"] == 0.0 && state["homes"] == nil && f.Home("ams", "demo").Node != home.Node
	})
	traffic.WaitServed(20)
	other := f.Home("ams", "demo")
	if status, answer := f.CallAPI(other.Admin, "POST", "/node/drain", ""); status != 409 {
		t.Errorf("the last active server drains without force: %d %v", status, answer)
	}
	f.MustCallAPI(home.Admin, "POST", "/node/undrain", "")
	f.ExpectSoon("the pool to be back", func() bool { return f.Home("ams", "demo").Node == home.Node && f.IsReady(home.Admin) })
	if status, answer := f.CallAPI(other.Admin, "POST", path+"/load", `{"model": "sql"}`); status != 409 || !strings.Contains(fmt.Sprint(answer), "server "+home.Node+" is the home of pool demo") {
		t.Errorf("to load a model at a server that is not the home: %d %v", status, answer)
	}
	traffic.WaitServed(20)
	traffic.Check()
	for _, e := range f.Engines {
		if peak := e.Simulated.Stats().Peak; peak > 3 {
			t.Errorf("engine %s had %d requests at once, and has 3 slots", e.ID, peak)
		}
	}
}

// A server that drains without another one to take over goes on with what runs and waits there.
func TestDrainWithoutAnotherServerCutsNothing(t *testing.T) {
	t.Parallel()
	fleettest.NeedsFleet(t, "a colo server of its own")
	c := fleettest.OneColo(fleettest.QuickEngine(2))
	c.AdminTokens = fleettest.AdminTokens(t)
	f := fleettest.Start(t, c, fleettest.LongQueue)
	f.WatchShared(20)
	blockers := f.BlockSlots(2)
	waiting := f.Enqueue(1)
	admin := f.Colos[0].Admin
	f.MustCallAPI(admin, "POST", "/node/drain?force=true", "")
	f.ExpectSoon("the entry to know of the drain", func() bool {
		return f.FleetPage(f.Entry.Admin).Field("servers/ams/"+f.Colos[0].Node, "state") == "draining"
	})
	if a := f.RawChat(fleettest.ChatBody(1, false)); a.Status != 503 || a.Header.Get("x-colonnade-reason") != "draining" {
		t.Errorf("a new request while the only server drains: %d %s", a.Status, a.Body)
	}
	if p := f.Pool("ams", "demo"); p.Held != 2 || p.Queued != 1 {
		t.Errorf("while the only server drains, %d run and %d wait, of 2 and 1", p.Held, p.Queued)
	}
	blockers[0].Close()
	if a := waiting.Read(); a.Status != 200 {
		t.Errorf("a request that waited: %d %s", a.Status, a.Body)
	}
	f.MustCallAPI(admin, "POST", "/node/undrain", "")
	f.ExpectSoon("requests to be served again", func() bool { return f.RawChat(fleettest.ChatBody(1, false)).Status == 200 })
	fleettest.ServeAll(t, blockers[1:], nil)
}

// An adapter is loaded by the admin API of the colo server, and served at once.
func TestAdapterIsLoaded(t *testing.T) {
	t.Parallel()
	c := fleettest.OneColo(fleettest.QuickEngine(2))
	c.AdminTokens = fleettest.AdminTokens(t)
	f := fleettest.Start(t, c, "key: models/sql\npool: demo\nadapter: sql\n")
	f.WatchShared(20)
	f.ApplyAndWait(f.EndpointDocument(f.Engines[0].ID, 0, "demo", "engine: vllm"), func() bool {
		return f.FleetPage(f.Colos[0].Admin).Field("endpoints/ams/"+f.Engines[0].ID, "engine") == "vllm"
	})
	chat := strings.Replace(fleettest.ChatBody(1, false), "demo-chat", "sql", 1)
	if a := f.RawChat(chat); a.Status == 200 {
		t.Errorf("the adapter is served before it is loaded: %s", a.Body)
	}
	path := "/endpoints/ams/" + f.Engines[0].ID
	admin := f.Colos[0].Admin
	fails := func(admin, verb, body string, want int, texts ...string) {
		t.Helper()
		status, answer := f.CallAPI(admin, "POST", path+verb, body)
		message, _ := answer["error"].(fleettest.Tree)["message"].(string)
		for _, text := range texts {
			if status != want || !strings.Contains(message, text) {
				t.Errorf("%s %s: %d %q, want %d with %q", verb, body, status, message, want, text)
			}
		}
	}
	fails(admin, "/load", `{"model": "sql", "source": "/adapters/missing"}`, 502, "No adapter found for /adapters/missing")
	fails(admin, "/load", `{"model": "demo-chat"}`, 501, "vLLM cannot load a model while it runs: it loads LoRA adapters")
	if !fleettest.Serve() {
		fails(f.Entry.Admin, "/load", `{"model": "sql"}`, 409, "engines are asked by the servers of their colo", admin)
	}
	done := f.MustCallAPI(admin, "POST", path+"/load", `{"model": "sql", "source": "/adapters/sql"}`)
	if models, _ := done["models"].([]any); !slices.Contains(models, any("sql")) || !strings.Contains(done["said"].(string), "added successfully") {
		t.Errorf("loaded: %v", done)
	}
	if a := f.RawChat(chat); a.Status != 200 {
		t.Errorf("the adapter that was loaded: %d %s", a.Status, a.Body)
	}
	fails(admin, "/load", `{"model": "sql"}`, 502, "has already been loaded")
	f.MustCallAPI(admin, "POST", path+"/unload", `{"model": "sql"}`)
	fails(admin, "/unload", `{"model": "sql"}`, 502, "cannot be found")
}
