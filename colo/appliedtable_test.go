package colo

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/permits"
)

// apply brings the server in line with these documents and no others; %ENGINE is the simulated one.
func (s *testServer) apply(documents string) {
	s.t.Helper()
	split, err := document.SplitFile([]byte(strings.ReplaceAll(documents, "%ENGINE", s.pool("p").Endpoints[0].URL)))
	if err != nil {
		s.t.Fatal(err)
	}
	docs := document.NewSet()
	for _, d := range split {
		if err := docs.Put(d.Key, d.Value, 1); err != nil {
			s.t.Fatal(err)
		}
	}
	s.Apply(docs.Table())
}

func (s *testServer) pool(name string) permits.Stats {
	s.t.Helper()
	for _, p := range s.Pools() {
		if p.Pool == name {
			return p
		}
	}
	s.t.Fatalf("no pool %s", name)
	return permits.Stats{}
}

// chat asks for a completion, as an entry does that has nowhere else to go.
func (s *testServer) chat(model string) (status int, verdict string) {
	answer, err := s.send(s.t.Context(), hopFor(model), `{"model":"x","max_tokens":1,"messages":[]}`)
	if err != nil {
		s.t.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	return answer.StatusCode, answer.Header.Get(hop.HeaderVerdict)
}

func hopFor(model string) hop.Token {
	return hop.Token{
		RequestID: "r", Source: "entry-1", Account: "a", Weight: 1, Priority: fleet.PriorityStandard, Model: model, HopsLeft: 1,
		Wait: hop.WaitFull, Total: hop.Millis(time.Minute),
	}
}

func (s *testServer) send(ctx context.Context, token hop.Token, body string) (*http.Response, error) {
	r, err := s.signed(ctx, token, body)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

// signed returns a chat request as an entry signs it.
func (s *testServer) signed(ctx context.Context, token hop.Token, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.address+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Close = true
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "") // or the client adds its own, which would not be signed
	to := peer.Server{Colo: "ams", Node: "ams-1", Protocol: s.protocol}
	signed, err := s.keys.Sign(&token, hop.NewSequence(s.Boot()), &hop.Binding{
		Audience: to.Audience(), Method: r.Method, Target: r.URL.Path, Body: []byte(body), AppendHeader: valuesOf(r.Header), Protocol: s.protocol,
	}, time.Now())
	r.Header.Set(hop.HeaderToken, signed)
	return r, err
}

// valuesOf returns the header lines of a binding.
func valuesOf(h http.Header) func([]byte, string) []byte {
	return func(dst []byte, name string) []byte { return append(dst, h.Get(name)...) }
}

const lateModel = `
key: models/late
pool: p
upstream_name: voice
---
key: endpoints/ams/one
url: %ENGINE
pool: p
concurrency: 1
`

// An entry may see a new model a moment before the colo server does: its request waits for that.
func TestModelThatIsYetToCome(t *testing.T) {
	s := startServer(t)
	time.AfterFunc(tableSkew/4, func() { s.apply(lateModel) })
	if status, verdict := s.chat("late"); status != 200 {
		t.Errorf("answer %d, verdict %q, for a model that came while the request waited", status, verdict)
	}
}

// An entry may learn a moment later than the colo server that a model was deleted: its requests are still served.
func TestModelThatHasJustGone(t *testing.T) {
	s := startServer(t)
	s.apply(lateModel)
	s.apply(lateModel[strings.Index(lateModel, "---"):])
	s.apply(lateModel[strings.Index(lateModel, "---"):] + "---\nkey: models/another")
	if status, verdict := s.chat("late"); status != 200 {
		t.Errorf("answer %d, verdict %q", status, verdict)
	}
	time.Sleep(tableSkew)
	if status, verdict := s.chat("late"); status != 404 {
		t.Errorf("answer %d, verdict %q, a second later", status, verdict)
	}
}

func TestModelThatIsGone(t *testing.T) {
	s := startServer(t)
	began := time.Now()
	if status, verdict := s.chat("gone"); status != 404 || !strings.Contains(verdict, "unknown_model") || !strings.Contains(verdict, "40002") {
		t.Errorf("answer %d, verdict %q", status, verdict)
	}
	if took := time.Since(began); took < tableSkew || took > patience {
		t.Errorf("told after %v, want about %v", took, tableSkew)
	}
}

// A request that waits in a pool goes with its model when that moves to another pool together with its endpoints.
func TestRequestFollowsItsModel(t *testing.T) {
	s := startServer(t)
	s.apply(lateModel + "---\nkey: models/voice\ntype: realtime\npool: p\n")
	session := s.open("voice")
	answered := make(chan string, 1)
	go func() { answered <- fmt.Sprint(s.chat("late")) }()
	s.until("the request to wait", func() bool { return s.pool("p").Queued == 1 })
	s.apply(strings.ReplaceAll(lateModel, "pool: p", "pool: q") + "---\nkey: pools/p\n")
	s.until("the request to wait in the other pool", func() bool { return s.pool("q").Queued == 1 })
	session.Close()
	if got := <-answered; got != "200" {
		t.Errorf("the answer was %s", got)
	}
}

// A request that a pool refuses while a table is being applied waits for that table instead of using the one before.
func TestRequestFollowsWhatIsBeingApplied(t *testing.T) {
	s := startServer(t)
	s.apply(lateModel)
	c := &call{server: s.Server, table: s.applied.Load()}
	c.model, _ = s.table().Model("late")
	docs := document.NewSet()
	if err := docs.Put("models/late", []byte("pool: q"), 2); err != nil {
		t.Fatal(err)
	}
	next := docs.Table()
	s.applying.Lock()
	s.pools.Apply(next)
	follows := make(chan bool, 1)
	go func() { follows <- c.reroute(&permits.Refusal{Reason: permits.NoEndpoint}) }()
	select {
	case <-follows:
		t.Error("it did not wait for the table")
	case <-time.After(50 * time.Millisecond):
	}
	s.applied.Store(s.applied.Load().after(next, time.Now()))
	s.applying.Unlock()
	if !t.Failed() && (!<-follows || c.pool.Name() != "q") {
		t.Error("it does not follow its model")
	}
}
