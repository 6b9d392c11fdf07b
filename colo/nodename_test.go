package colo

import (
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
	"colonnade/openai"
	"colonnade/reasons"
)

// stopIn returns a stop in a colo.
func stopIn(colo string) hop.Stop {
	return hop.Stop{Colo: colo, Node: colo + "-1", Address: "10.0.0.7:8443", Boot: "ABCDEFGHIJKLM"}
}

// A request that has visited this colo goes no further, whichever of its servers that was. A server of the same name in another colo is no
// visit, and an older sender names servers without their colos.
func TestColoThatWasVisited(t *testing.T) {
	s := startServer(t)
	s.apply(lateModel)
	f := func(want int, visited ...string) {
		t.Helper()
		token := hopFor("late")
		token.Visited = visited
		answer, err := s.send(t.Context(), token, plainChat)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		v, err := hop.ParseVerdict(answer.Header.Get(hop.HeaderVerdict))
		refused := err == nil && v.Kind == hop.VerdictError && v.Reason == reasons.RoutingLoop && v.Final
		if answer.StatusCode != want || refused != (want == 503) {
			t.Errorf("after %q: %d, %+v, %v; want %d", visited, answer.StatusCode, v, err, want)
		}
	}
	f(200)
	f(200, "fra/ams-1", "iad/ams-2")
	f(200, "ams-2", "fra-1")
	f(503, "ams/ams-1")
	f(503, "ams/ams-2", "fra/fra-1")
	f(503, "fra/fra-1", "ams/ams-3")
	f(503, "ams-1")
}

// A token whose stops a sender may not name is refused before anything is done.
func TestTokenWithForbiddenStops(t *testing.T) {
	s := startServer(t)
	s.apply(lateModel)
	served, _ := s.countingEngine()
	wire := func(change func(*hop.Token)) []byte {
		token := hopFor("late")
		token.Visited, token.Onward = []string{"fra/fra-1"}, []hop.Stop{stopIn("iad"), stopIn("sin")}
		change(&token)
		return s.recorded(token, plainChat)
	}
	if answer := s.connect().send(t, wire(func(*hop.Token) {})); answer.StatusCode != 200 || served.Load() != 1 {
		t.Fatalf("good stops: %d", answer.StatusCode)
	}
	for name, change := range map[string]func(*hop.Token){
		"the receiver's colo":   func(h *hop.Token) { h.Onward[1] = stopIn("ams") },
		"the sender":            func(h *hop.Token) { h.Onward[0] = stopIn("fra") },
		"a visited colo":        func(h *hop.Token) { h.Visited = []string{"sin/sin-2", "fra/fra-1"} },
		"a colo twice":          func(h *hop.Token) { h.Onward[1].Colo = "iad" },
		"no address":            func(h *hop.Token) { h.Onward[1].Address = "" },
		"a sender without colo": func(h *hop.Token) { h.Visited = []string{"fra-1"} },
		"too many": func(h *hop.Token) {
			for i := range 16 {
				h.Onward = append(h.Onward, stopIn("colo"+string(rune('a'+i))))
			}
		},
	} {
		s.expectRefused(name, "invalid", wire(change), s.connect())
	}
	old := s.signOld("POST", "/v1/chat/completions", `{"src":"entry-1","mod":"late","acc":"a","w":1,"pri":"standard","wait":"full","total":60000,
		"onw":[{"colo":"iad","node":"n","at":"h:1","boot":"b"}]`, plainChat)
	s.expectRefused("of the version before", "invalid", []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Content-Length: 27\r\nx-colonnade-hop: "+old+"\r\n\r\n"+plainChat), s.connect())
	if n := served.Load(); n != 1 {
		t.Errorf("the engine served %d requests, want 1", n)
	}
}

// With mutual TLS, only the entry that a token names, or after a visit the server that was visited last, may name stops.
func TestStopsByCertificate(t *testing.T) {
	ca := tlstest.NewCA(t, "fleet")
	load := func(who peertls.Identity) *peertls.TrustStore {
		store, err := peertls.LoadTrustStore(peertls.Files(forwardtest.NewFiles(t, ca, who, nil)), who, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	s := startConfigured(t, func(c *Config) { c.Peers = load(forwardtest.Colo()) }, func(*Server) {})
	s.apply(lateModel)
	f := func(want bool, who peertls.Identity, visited ...string) {
		t.Helper()
		token := hopFor("late")
		token.Visited, token.Onward = visited, []hop.Stop{stopIn("iad")}
		to := s.server()
		to.Protocol = hop.NodeNamesProtocol
		answer, err := s.client(who.Node, load(who)).To(to)(t.Context(), &peer.Request{
			Token: token, Route: openai.Route{API: openai.Chat, Path: "/v1/chat/completions"}, Body: []byte(plainChat),
			Limits: peer.Limits{Connect: patience, End: time.Now().Add(patience)},
		})
		var refused *peer.NoVerdictError
		switch {
		case want && (err != nil || answer.Response == nil || answer.ServedBy != "ams/ams-1" || answer.Visits != nil):
			t.Errorf("%s after %q: %+v, %v", who, visited, answer, err)
		case !want && (!errors.As(err, &refused) || refused.Status != http.StatusForbidden):
			t.Errorf("%s after %q: %+v, %v, want 403", who, visited, answer, err)
		}
		if answer != nil {
			answer.Close()
		}
	}
	entry := func(node string) peertls.Identity { return peertls.Identity{Role: peertls.RoleEntry, Node: node} }
	colo := func(colo, node string) peertls.Identity {
		return peertls.Identity{Role: peertls.RoleColo, Colo: colo, Node: node}
	}
	f(true, entry("entry-1"))
	f(true, colo("fra", "n"), "fra/n")
	f(false, entry("entry-2"))
	f(false, entry("n"), "fra/n")
	f(false, colo("fra", "entry-1"))
	f(false, colo("sin", "n"), "fra/n")
	f(false, colo("fra", "n2"), "fra/n")
	f(false, colo("fra", "n"), "fra/n", "sin/n")
	f(false, colo("fra", "n"), "n")
}

// An answer says which server served it. One that another server gave has the load and the visits of that answer.
func TestFieldsOfAnAnswerThatWasSentOn(t *testing.T) {
	s := startServer(t)
	s.apply(lateModel)
	answer, err := s.send(t.Context(), hopFor("late"), plainChat)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got := answer.Header; got.Get(hop.HeaderServedBy) != "ams/ams-1" || got.Values(hop.HeaderVisits) != nil {
		t.Errorf("served here: %v", got)
	}
	f := func(a *peer.Answer, want http.Header) {
		t.Helper()
		got := http.Header{}
		eachField(a, got.Set)
		for _, name := range []string{hop.HeaderLoad, hop.HeaderVisits, hop.HeaderServedBy} {
			if !reflect.DeepEqual(got.Values(name), want.Values(name)) {
				t.Errorf("%s is %q, want %q", name, got.Values(name), want.Values(name))
			}
		}
	}
	visits := []hop.Visit{{Colo: "ams", Node: "ams-1", Verdict: hop.Verdict{Kind: hop.VerdictOOC}, Load: hop.Load{Queued: 9}, HasLoad: true}}
	served, refused := http.Header{}, http.Header{}
	served.Set(hop.HeaderVisits, hop.FormatVisits(visits))
	refused.Set(hop.HeaderVisits, hop.FormatVisits(visits))
	served.Set(hop.HeaderLoad, "free=3;held=1;limit=4;queued=0")
	served.Set(hop.HeaderServedBy, "fra/fra-1")
	f(&peer.Answer{Load: hop.Load{Free: 3, Held: 1, Limit: 4}, HasLoad: true, Visits: visits, ServedBy: "fra/fra-1"}, served)
	f(&peer.Answer{Visits: visits}, refused)
	f(&peer.Answer{}, http.Header{})
}
