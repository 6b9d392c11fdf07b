package paths_test

import (
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// In a pool of engines of two kinds, requests go only to those that have the path, also while the others are idle, and chat goes to all.
func TestPoolOfTwoKinds(t *testing.T) {
	t.Parallel()
	quick := simengine.Config{Slots: 1, TTFT: time.Millisecond, ITL: -1, Tokens: saidWords}
	ofKind := func(kind string) (*simengine.Engine, string) {
		c := quick
		c.Kind = kind
		e, documents := fleettest.StartKind(t, "mixed", c, "")
		return e, strings.ReplaceAll(documents, "endpoints/ams/mixed", "endpoints/ams/mixed-"+kind)
	}
	ollama, first := ofKind("ollama")
	vllm, second := ofKind("vllm")
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), first+endpointOf(second))
	f.WatchShared(8)
	post := func(path, body string, lines ...string) wiretest.Response {
		conn := wiretest.Dial(t, f.Entry.Address)
		defer conn.Close()
		conn.Post(path, `{"model":"mixed"`+askThree+body+"}", lines...)
		return conn.Read()
	}
	for n := range 8 {
		if a := post("/api/chat", ""); a.Status != 200 || a.Err != nil {
			t.Fatalf("request %d: %d %v: %s", n, a.Status, a.Err, a.Body)
		}
	}
	if has, lacks := ollama.Stats(), vllm.Stats(); has.Served != 8 || lacks.Requests+lacks.Unknown != 0 {
		t.Errorf("the engine with the path: %+v; the one without: %+v", has, lacks)
	}

	ollama.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
	held := wiretest.Dial(t, f.Entry.Address)
	held.Post("/api/chat", `{"model":"mixed"`+askThree+"}")
	testkit.WaitFor(t, "the only engine with the path to be busy", func() bool { return fleettest.InFlight(ollama) == 1 })
	if a := post("/api/chat", "", "x-colonnade-queue: never"); a.Status != 429 || !ollamaError.is(a.Body) {
		t.Errorf("while the only engine with the path is busy: %d %v: %s", a.Status, a.Err, a.Body)
	}
	for range 4 {
		if a := post(fleettest.ChatPath, "", "x-colonnade-queue: never"); a.Status != 200 {
			t.Errorf("chat, which the idle engine has: %d %v: %s", a.Status, a.Err, a.Body)
		}
	}
	if n := vllm.Stats().Served; n != 4 {
		t.Errorf("the idle engine served %d requests, want 4", n)
	}
	held.Close()
	testkit.WaitFor(t, "the permit to be free", func() bool { return f.Pool("ams", "mixed").Held == 0 })
}

// endpointOf returns the document of the endpoint among those of an engine.
func endpointOf(documents string) string {
	_, rest, _ := strings.Cut(documents, "---\nkey: endpoints/")
	rest, _, _ = strings.Cut(rest, "---\n")
	return "---\nkey: endpoints/" + rest
}
