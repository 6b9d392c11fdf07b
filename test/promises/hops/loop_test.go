package hops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/wiretest"
)

// stopAt returns a stop at the server of a colo.
func (f *farFleet) stopAt(colo string) hop.Stop {
	f.T.Helper()
	s := f.Server(colo + "-1")
	return hop.Stop{Colo: colo, Node: s.Node, Address: s.Address, Boot: s.Boot, ReturnProbability: 0.5}
}

// handMade returns a token for a model that an entry could sign, with stops at these colos.
func (f *farFleet) handMade(onward ...string) hop.Token {
	t := hop.Token{
		RequestID: f.served, Source: "entry-1", Account: "open", Weight: 1, Priority: "standard", Model: "onward",
		HopsLeft: 4, Wait: hop.WaitNever, Total: hop.Millis(time.Minute),
	}
	for _, colo := range onward {
		t.Onward = append(t.Onward, f.stopAt(colo))
	}
	return t
}

const handMadeBody = `{"model":"onward","max_tokens":1,"messages":[]}`

// post sends a request with a token to the server of a colo, as that signs it for an audience.
func (f *farFleet) post(colo, audience string, token hop.Token) wiretest.Response {
	f.T.Helper()
	return f.postSigned(colo, f.SignHop(token, hop.Binding{
		Audience: audience, Method: "POST", Target: fleettest.ChatPath, AppendHeader: fleettest.JSONHeader, Body: []byte(handMadeBody),
	}, time.Now()))
}

func (f *farFleet) postSigned(colo, signed string) wiretest.Response {
	f.T.Helper()
	c := wiretest.Dial(f.T, f.Server(colo+"-1").Address)
	defer c.Close()
	c.Post(fleettest.ChatPath, handMadeBody, hop.HeaderToken+": "+signed)
	return c.Read()
}

// visits returns the visits in an answer, each as the colo and the verdict with its reason.
func visits(t testing.TB, a wiretest.Response) (all []string) {
	t.Helper()
	parsed, err := hop.ParseVisits(a.Header.Get(hop.HeaderVisits))
	if err != nil {
		t.Error(err)
	}
	for _, v := range parsed {
		all = append(all, fmt.Sprintf("%s %s %s", v.Colo, v.Verdict.Kind, v.Verdict.Reason))
	}
	return all
}

// A request that full colos send on ends at its hop limit, and at a server that it has visited. No colo gets it twice, and no engine at all.
func TestRoutingLoopEnds(t *testing.T) {
	t.Parallel()
	f := startFar(t, fleettest.SteadyEngine(1), noSpill, "")
	f.fill("ams", "fra", "iad")
	const full = " ooc busy"
	check := func(name string, token hop.Token, status int, reason string, want [3]uint64, path ...string) {
		t.Helper()
		before, engines := f.refusals(), f.EngineRequests()
		a := f.post("ams", "ams/ams-1", token)
		v, err := hop.ParseVerdict(a.Header.Get(hop.HeaderVerdict))
		if a.Status != status || err != nil || v.Reason != reason || !slices.Equal(visits(t, a), path) {
			t.Errorf("%s: %d %+v %v, visits %q, want %d %s and %q", name, a.Status, v, err, visits(t, a), status, reason, path)
		}
		got := f.refusals()
		for i := range got {
			got[i] -= before[i]
		}
		if got != want || f.EngineRequests() != engines {
			t.Errorf("%s: the colos were asked %v times, want %v; engines %d times", name, got, want, f.EngineRequests()-engines)
		}
	}
	token := f.handMade("fra", "iad")
	check("all hops", token, 429, "busy", [3]uint64{1, 1, 1}, "ams"+full, "fra"+full, "iad"+full)
	token.HopsLeft = 1
	check("one hop", token, 429, "busy", [3]uint64{1, 1, 0}, "ams"+full, "fra"+full)
	token.HopsLeft = 0
	check("no hop", token, 429, "busy", [3]uint64{1, 0, 0})
	token.HopsLeft = -1
	check("too far", token, 503, "hop_limit", [3]uint64{})
	token = f.handMade()
	token.Visited = []string{"fra/fra-1", "ams/ams-1"}
	check("visited", token, 503, "routing_loop", [3]uint64{})
	token.Visited = []string{"fra/fra-1", "ams/ams-2"}
	check("visited by another server of the colo", token, 503, "routing_loop", [3]uint64{})
	// The next server has the name of fra in the token, but is ams itself.
	token = f.handMade("fra")
	token.Onward[0].Address, token.Onward[0].Boot = f.Server("ams-1").Address, f.Server("ams-1").Boot
	check("a stop that leads back", token, 429, "busy", [3]uint64{1, 0, 0}, "ams"+full, "fra unread no_server") // it rejects the token, so it has served nothing
}

// A token whose stops no sender may have signed is rejected, and so is one that was altered or made for another server. No header but the
// token says where a request may go, at either listener.
func TestForgedStops(t *testing.T) {
	t.Parallel()
	f := startFar(t, fleettest.SteadyEngine(1), noSpill, "")
	f.fill("ams")
	engines := f.EngineRequests()
	rejected := func(name string, a wiretest.Response) {
		t.Helper()
		if a.Status != 403 || a.APIError(t).Number != 40302 || a.Header.Get(hop.HeaderLoad) != "" || a.Header.Get(hop.HeaderVisits) != "" {
			t.Errorf("%s: %d %v %.300q, want 403", name, a.Status, a.Header, a.Body)
		}
		if f.EngineRequests() != engines {
			t.Errorf("%s: an engine got the request", name)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*hop.Token)
	}{
		{"too many stops", func(h *hop.Token) {
			for n := range 16 {
				stop := h.Onward[0]
				stop.Colo = fmt.Sprintf("colo-%d", n)
				h.Onward = append(h.Onward, stop)
			}
		}},
		{"a stop twice", func(h *hop.Token) { h.Onward = append(h.Onward, f.stopAt("iad"), f.stopAt("fra")) }},
		{"a stop in its own colo", func(h *hop.Token) { h.Onward = append(h.Onward, f.stopAt("ams")) }},
		{"a stop at its sender", func(h *hop.Token) { h.Visited = []string{"fra/fra-1"} }},
		{"a stop at a colo before", func(h *hop.Token) { h.Visited = []string{"fra/fra-1", "iad/iad-1"} }},
		{"a visit without a colo", func(h *hop.Token) { h.Visited = []string{"iad-1"} }},
		{"no address", func(h *hop.Token) { h.Onward[0].Address = "" }},
		{"no host", func(h *hop.Token) { h.Onward[0].Address = "fra-1:80/v1?a=" }},
		{"an odd name", func(h *hop.Token) { h.Onward[0].Node = "fra-1\r\nx-note: a" }},
		{"no process", func(h *hop.Token) { h.Onward[0].Boot = "" }},
		{"a probability of two", func(h *hop.Token) { h.Onward[0].ReturnProbability = 2 }},
	} {
		token := f.handMade("fra")
		c.change(&token)
		rejected(c.name, f.post("ams", "ams/ams-1", token))
		rejected(c.name+", signed for the node", f.post("ams", "ams-1", token))
	}
	good := f.handMade("fra")
	rejected("for another server", f.post("ams", "fra/fra-1", good))
	rejected("for the node of another colo", f.post("ams", "fra/ams-1", good))
	signed := f.SignHop(good, hop.Binding{
		Audience: "ams/ams-1", Method: "POST", Target: fleettest.ChatPath, AppendHeader: fleettest.JSONHeader, Body: []byte(handMadeBody),
	}, time.Now())
	for at := 10; at < len(signed); at += len(signed) / 17 {
		other := "A"
		if signed[at] == 'A' {
			other = "B"
		}
		rejected(fmt.Sprintf("altered at %d", at), f.postSigned("ams", signed[:at]+other+signed[at+1:]))
	}
	if a := f.postSigned("ams", signed); a.Status != 200 || a.Header.Get(hop.HeaderServedBy) != "fra/fra-1" {
		t.Errorf("as it was signed: %d by %q %.300q", a.Status, a.Header.Get(hop.HeaderServedBy), a.Body)
	}
	engines++
	rejected("sent again", f.postSigned("ams", signed))

	forged := []string{
		hop.HeaderVisits + ": iad/iad-1|ooc|free=0|queued_ms=1;attempts=1", hop.HeaderServedBy + ": iad/iad-1", hop.HeaderTook + ": 1", hop.HeaderToken + ": " + signed,
		"x-colonnade-onward: iad", "x-colonnade-colo-path: iad", "x-colonnade-colo: iad", "x-colonnade-attempts: 7", "x-colonnade-verdict: ooc",
	}
	for _, model := range both {
		a := f.RawChat(chat(model, 1, false), forged...)
		f.expectServed(a, "ams, fra")
		for _, r := range f.Engine("fra").Received() {
			for name := range r.Header {
				if strings.HasPrefix(strings.ToLower(name), "x-colonnade") {
					t.Errorf("%s: the engine got the header %s", model, name)
				}
			}
		}
		for _, internal := range []string{hop.HeaderVisits, hop.HeaderServedBy, hop.HeaderTook, hop.HeaderToken, hop.HeaderLoad, hop.HeaderVerdict, hop.HeaderRetries} {
			if got := a.Header.Get(internal); got != "" {
				t.Errorf("%s: the client got the header %s: %s", model, internal, got)
			}
		}
	}
}
