package paths_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/admission"
	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// freeCases returns all paths that take no slot, with each kind of engine that has them.
func freeCases() (all []pathCase) {
	refusals := map[string]refusal{"tgi": tgiError, "tei": teiError}
	f := func(kind, path, body, has string) {
		models, says := "chat", openAIError
		if kind == "tei" {
			models = "embedding"
		}
		if own, ok := refusals[kind]; ok {
			says = own
		}
		if strings.HasPrefix(path, "/v1/messages") {
			says = anthropicError
		}
		all = append(all, pathCase{engine: engineType{kind, models}, path: path, body: body, has: has, refusal: says})
	}
	for _, kind := range []string{"vllm", "sglang", "openai"} {
		f(kind, "/tokenize", `,"prompt":"one two three"`, `"count":3`)
		f(kind, "/detokenize", `,"tokens":[0]`, `"one"`)
	}
	f("sglang", "/v1/tokenize", `,"prompt":"one two three"`, `"count":3`)
	f("sglang", "/v1/detokenize", `,"tokens":[0]`, `"one"`)
	f("llamacpp", "/tokenize", `,"content":"one two three"`, `"tokens":[`)
	f("llamacpp", "/detokenize", `,"tokens":[0]`, `"content":"one"`)
	f("tgi", "/tokenize", `,"inputs":"one two three"`, `"text":"one"`)
	f("tei", "/tokenize", `,"inputs":"one two three"`, `"text":"one"`)
	f("tei", "/decode", `,"ids":[0]`, `["one`)
	for _, kind := range []string{"vllm", "sglang", "llamacpp"} {
		f(kind, "/v1/messages/count_tokens", askThree, `{"input_tokens":3}`)
	}
	return all
}

// Paths that cost the engine next to nothing take no slot: they are served while the only slot is taken, and hold nothing.
func TestFreePaths(t *testing.T) {
	t.Parallel()
	s := start(t, simengine.Config{ITL: -1})
	for _, c := range freeCases() {
		t.Run(c.String(), func(t *testing.T) {
			e := s.engines[c.engine]
			e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
			holds := pathCase{engine: c.engine, path: fleettest.ChatPath, body: askThree}
			if c.engine.kind == "tei" {
				holds.path, holds.body = "/embed", `,"inputs":"one"`
			}
			held := s.send(t, holds, false, "holds-"+idOf(c, false))
			testkit.WaitFor(t, "the slot to be taken", func() bool { return fleettest.InFlight(e) == 1 })
			a := s.send(t, c, false, idOf(c, false), "x-colonnade-queue: never").Read()
			if a.Status != 200 || a.Err != nil || !strings.Contains(a.Body, c.has) {
				t.Errorf("%d %v: %s, want %s", a.Status, a.Err, a.Body, c.has)
			}
			if held := s.Pool("ams", c.engine.String()).Held; held != 1 {
				t.Errorf("%d permits are held, want 1", held)
			}
			held.Close()
			s.rested(t, c)
		})
	}
}

// Free requests are bounded at each endpoint, and are released as their clients leave.
func TestFreePathsAreBounded(t *testing.T) {
	t.Parallel()
	s := startFor(t, simengine.Config{ITL: -1}, admission.MaxFree)
	c := pathCase{engine: engineType{"vllm", "chat"}, path: "/tokenize", body: `,"prompt":"one two three"`}
	e := s.engines[c.engine]
	e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead})
	var held []*wiretest.Conn
	for n := range admission.MaxFree {
		held = append(held, s.send(t, c, false, fmt.Sprintf("free-held-%02d", n), "Authorization: "+s.accounts[n%len(s.accounts)]))
	}
	testkit.WaitFor(t, "the engine to have them all", func() bool { return e.Stats().Requests == admission.MaxFree })
	a := s.send(t, c, false, "free-over").Read() // without a key, as another account
	if a.Status != 429 || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Body, `"reason":"busy"`) || e.Stats().Requests != admission.MaxFree {
		t.Errorf("one more: %d %v: %s, and the engine got %d", a.Status, a.Err, a.Body, e.Stats().Requests)
	}
	if p := s.Pool("ams", c.engine.String()); p.Held != 0 {
		t.Errorf("%d slots are held, want none", p.Held)
	}
	e.ClearFaults()
	for n, conn := range held {
		conn.Leave(n)
	}
	testkit.WaitFor(t, "a free place", func() bool { return s.send(t, c, false, "free-again").Read().Status == 200 })
	for n := range held {
		if final := s.FinalEvent(analytics.KindInference, fmt.Sprintf("free-held-%02d", n)); final.Outcome != analytics.OutcomeClientGone {
			t.Errorf("request %d: the event says %s", n, final.Outcome)
		}
	}
}

// One account gets a quarter of the places for free requests; others get the rest. Metrics and pages show them, and its own requests for slots are served.
func TestFreePathsAreShared(t *testing.T) {
	t.Parallel()
	const share = admission.MaxFree / 4
	s := startFor(t, simengine.Config{ITL: -1}, 2*share)
	c := pathCase{engine: engineType{"sglang", "chat"}, path: "/tokenize", body: `,"prompt":"one two three"`}
	greedy, e := "Authorization: "+s.accounts[0], s.engines[c.engine]
	e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: share})
	var held []*wiretest.Conn
	for n := range share {
		held = append(held, s.send(t, c, false, fmt.Sprintf("share-held-%02d", n), greedy))
	}
	testkit.WaitFor(t, "the engine to have them", func() bool { return e.Stats().Requests == share })
	const refused = 20 // more than make a flood
	for n := range refused {
		a := s.send(t, c, false, fmt.Sprintf("share-over-%02d", n), greedy).Read()
		if a.Status != 429 || a.Header.Get("Retry-After") == "" || a.Header.Get("x-colonnade-reason") != "account_limit" {
			t.Fatalf("request %d beyond its share: %d %v: %s", n, a.Status, a.Err, a.Body)
		}
	}
	if a := s.send(t, c, false, "share-other", "Authorization: "+s.accounts[1]).Read(); a.Status != 200 {
		t.Errorf("another account: %d %v: %s", a.Status, a.Err, a.Body)
	}
	for n := range 3 {
		chat := pathCase{engine: c.engine, path: fleettest.ChatPath, body: askThree}
		if a := s.send(t, chat, false, fmt.Sprintf("share-chat-%d", n), greedy).Read(); a.Status != 200 {
			t.Errorf("a chat of the account: %d %v: %s", a.Status, a.Err, a.Body)
		}
	}
	p := s.Pool("ams", c.engine.String()).NoSlot
	if p == nil || p.Held != share || p.Granted != share+1 || p.Refused["account_limit"] == 0 || len(p.Accounts) != 1 || p.Accounts[0].Held != share {
		t.Fatalf("the page says %+v", p)
	}
	for metric, want := range map[string]float64{
		`colonnade_no_slot_requests_running{pool="%s"}`: share, `colonnade_no_slot_requests_total{pool="%s"}`: share + 1,
		`colonnade_no_slot_refusals_total{pool="%s",reason="account_limit"}`: float64(p.Refused["account_limit"]),
	} {
		if n := s.Metric(s.Colos[0].Admin, fmt.Sprintf(metric, c.engine)); n != want {
			t.Errorf("%s: %v, want %v", metric, n, want)
		}
	}
	for n, conn := range held {
		conn.Leave(n)
	}
	testkit.WaitFor(t, "a free place", func() bool { return s.send(t, c, false, "share-again", greedy).Read().Status == 200 })
}
