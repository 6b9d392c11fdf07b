package colo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/homes"
	"colonnade/internal/forwardtest"
	"colonnade/internal/tlstest"
)

// questioned is a server that answers questions.
type questioned struct {
	*testServer
	mu    sync.Mutex // guards the fields below
	asked []string   // who asked about which process
	began int        // requests in flight when the last question was answered
}

func startQuestioned(t *testing.T, peers *peertls.TrustStore) *questioned {
	t.Helper()
	q := &questioned{}
	q.testServer = startConfigured(t, func(c *Config) {
		c.Peers = peers
		c.Owned = func(asker homes.Process, about string) homes.Answer {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.began = q.inflight.Count()
			q.asked = append(q.asked, fmt.Sprintf("%s about %q", asker, about))
			return homes.Answer{Boot: "boot", Held: map[string]int{"http://x:1": 2}, Reaches: true}
		}
	}, func(*Server) {})
	return q
}

// wantAsked expects these questions since the last call, and no others.
func (q *questioned) wantAsked(want ...string) {
	q.t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !reflect.DeepEqual(q.asked, want) {
		q.t.Errorf("asked %q, want %q", q.asked, want)
	}
	q.asked = nil
}

// server returns the server as another node knows it.
func (s *testServer) server() peer.Server {
	return peer.Server{Colo: "ams", Node: "ams-1", Address: s.address, Boot: s.Boot()}
}

// client returns the client of another node.
func (s *testServer) client(node string, peers *peertls.TrustStore) *peer.Client {
	return &peer.Client{Node: node, Transport: forwardtest.NewTransport(s.t), Keys: s.keys, Peers: peers}
}

// wantAnswers expects that questions are answered.
func (q *questioned) wantAnswers(when string, c *peer.Client) {
	q.t.Helper()
	a, err := c.Ask(q.t.Context(), q.server(), peer.Question{About: q.Boot(), From: "mine"})
	if err != nil || a.Boot != "boot" || a.Held["http://x:1"] != 2 || !a.Reaches {
		q.t.Errorf("%s: %+v, %v", when, a, err)
	}
	q.wantAsked(fmt.Sprintf("ams-2/mine about %q", q.Boot()))
	answer, err := q.signedGet(hop.PathAlive)
	if err != nil {
		q.t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		q.t.Errorf("%s: a sign of life is %d", when, answer.StatusCode)
	}
}

// signedGet asks an entry's question.
func (s *testServer) signedGet(target string) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+s.address+target, nil)
	if err != nil {
		return nil, err
	}
	r.Close = true
	r.Header.Set("User-Agent", "")
	token, err := s.keys.Sign(&hop.Token{Source: "entry-1"}, hop.NewSequence(s.Boot()), &hop.Binding{
		Audience: "ams-1", Method: r.Method, Target: target,
	}, time.Now())
	r.Header.Set(hop.HeaderToken, token)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(r)
}

// Questions are answered whatever the server does: while no slot is free, while nothing may be granted, and until the drain is over. They
// are no requests in flight, so a drain does not wait for them.
func TestQuestionsAreAnsweredAtAnyTime(t *testing.T) {
	q := startQuestioned(t, nil)
	c := q.client("ams-2", nil)
	q.wantAnswers("at first", c)
	if q.began != 0 {
		t.Error("a question is a request in flight")
	}
	if a, err := q.Ask(t.Context(), q.server(), peer.Question{From: "own"}); err != nil || a.Boot != "boot" {
		t.Errorf("asked by a server: %+v, %v", a, err)
	}
	q.wantAsked(`ams-1/own about ""`)
	q.apply(talkAndChat)
	session := q.open("voice")
	statuses := make(chan int, 1)
	go func() {
		status, _ := q.chat("late")
		statuses <- status
	}()
	q.until("a request to wait", func() bool { return q.pool("p").Queued == 1 })
	q.wantAnswers("while no slot is free", c)
	q.SetFence(time.Now().Add(-time.Second))
	q.wantAnswers("while nothing may be granted", c)
	q.down = true
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- q.Shutdown(ctx, server.DrainTimings{Notice: patience, Quiet: 50 * time.Millisecond}) }()
	if status := <-statuses; status != 503 {
		t.Errorf("the request that waited: %d", status)
	}
	for !q.pool("p").Draining { // nor does the drain wait for questions
		q.wantAnswers("while the server drains", c)
	}
	q.wantAnswers("at the end of the drain", c)
	session.Close()
	if err := <-over; err != nil {
		t.Errorf("the drain: %v", err)
	}
	if _, err := c.Ask(t.Context(), q.server(), peer.Question{}); !peer.IsRefused(err) {
		t.Errorf("a server that has ended: %v", err)
	}
}

// A question that no sibling has signed for this process and these words is refused with 403, and asks nothing. So is one that was asked
// before.
func TestForgedQuestions(t *testing.T) {
	q := startQuestioned(t, nil)
	const target = hop.PathOwned + "?about=a&colo=ams&from=b"
	type question struct {
		keys   *hop.Keys
		to     hop.Binding
		boot   string
		issued time.Time
		sent   string // the target
	}
	wire := func(change func(*question)) []byte {
		f := question{q.keys, hop.Binding{Audience: "ams-1", Method: "GET", Target: target}, q.Boot(), time.Now(), target}
		change(&f)
		token, err := f.keys.Sign(&hop.Token{Source: "ams-2"}, hop.NewSequence(f.boot), &f.to, f.issued)
		if err != nil {
			t.Fatal(err)
		}
		return []byte("GET " + f.sent + " HTTP/1.1\r\nHost: x\r\nx-colonnade-hop: " + token + "\r\n\r\n")
	}
	good := wire(func(*question) {})
	if answer := q.connect().send(t, good); answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "application/json" {
		t.Errorf("a question: %d %v", answer.StatusCode, answer.Header)
	}
	q.wantAsked(`ams-2/b about "a"`)
	q.expectRefused("asked again", "replayed", good, q.connect())
	for name, change := range map[string]func(*question){
		"of another fleet":    func(f *question) { f.keys = hop.RandomKeys() },
		"to another server":   func(f *question) { f.to.Audience = "ams-3" },
		"with another method": func(f *question) { f.to.Method = "POST" },
		"with another body":   func(f *question) { f.to.Body = []byte("{}") },
		"about another":       func(f *question) { f.sent = strings.Replace(target, "about=a", "about=c", 1) },
		"from another":        func(f *question) { f.sent = strings.Replace(target, "from=b", "from=c", 1) },
		"for a sign of life":  func(f *question) { f.to.Target = hop.PathAlive },
		"eleven minutes old":  func(f *question) { f.issued = f.issued.Add(-11 * time.Minute) },
		"to another colo": func(f *question) {
			f.to.Target = strings.Replace(target, "colo=ams", "colo=fra", 1)
			f.sent = f.to.Target
		},
		"to no colo": func(f *question) { f.to.Target, f.sent = hop.PathOwned, hop.PathOwned },
	} {
		q.expectRefused(name, "invalid", wire(change), q.connect())
	}
	q.expectRefused("without a token", "invalid", []byte("GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"), q.connect())
	old := strings.Replace(string(wire(func(*question) {})), "x-colonnade-hop: v2.", "x-colonnade-hop: v1.", 1)
	q.expectRefused("as one of the version before", "invalid", []byte(old), q.connect())
	q.expectRefused("to another process", "sign_again", wire(func(f *question) { f.boot = "before" }), q.connect())
	q.wantAsked()
}

// A token of the version before has no number, so that a question could be asked again with it.
func TestOldTokenAsksNoQuestion(t *testing.T) {
	q := startQuestioned(t, nil)
	token := q.signOld("GET", hop.PathOwned, `{"src":"ams-2"`, "")
	wire := "GET " + hop.PathOwned + "?colo=ams HTTP/1.1\r\nHost: x\r\nx-colonnade-hop: " + token + "\r\n\r\n"
	q.expectRefused("of the version before", "invalid", []byte(wire), q.connect())
	q.wantAsked()
}

// With mutual TLS, only a server of the same colo that has signed the question may ask what a server owns, and only the node that has
// signed the question for a sign of life: an entry, or a server of any colo that says so.
func TestQuestionsOfCertificates(t *testing.T) {
	ca := tlstest.NewCA(t, "fleet")
	load := func(who peertls.Identity) *peertls.TrustStore {
		store, err := peertls.LoadTrustStore(peertls.Files(forwardtest.NewFiles(t, ca, who, nil)), who, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	q := startQuestioned(t, load(forwardtest.Colo()))
	colo := func(colo, node string) peertls.Identity {
		return peertls.Identity{Role: peertls.RoleColo, Colo: colo, Node: node}
	}
	entry := func(node string) peertls.Identity { return peertls.Identity{Role: peertls.RoleEntry, Node: node} }
	for _, who := range []struct {
		name        string
		certificate peertls.Identity
		colo, node  string // as which it signs; without a colo, it signs as an entry
		asks, lives bool
	}{
		{"a sibling", colo("ams", "ams-2"), "", "ams-2", true, false},
		{"its own successor", colo("ams", "ams-1"), "", "ams-1", true, false},
		{"a sibling in the name of another", colo("ams", "ams-2"), "", "ams-3", false, false},
		{"a server of another colo", colo("fra", "ams-2"), "", "ams-2", false, false},
		{"an entry", entry("ams-2"), "", "ams-2", false, true},
		{"an entry in the name of another", entry("entry-1"), "", "entry-2", false, false},
		{"a sibling that names its colo", colo("ams", "ams-2"), "ams", "ams-2", true, true},
		{"a server of another colo that names it", colo("fra", "ams-2"), "fra", "ams-2", false, true},
		{"a server of another colo in the name of a sibling", colo("fra", "ams-2"), "ams", "ams-2", false, false},
		{"an entry in the name of a sibling", entry("ams-2"), "ams", "ams-2", false, false},
	} {
		c := q.client(who.node, load(who.certificate))
		c.Colo = who.colo
		to := q.server()
		to.Protocol = hop.NodeNamesProtocol
		_, err := c.Ask(t.Context(), to, peer.Question{})
		var refused *peer.NoVerdictError
		if (err == nil) != who.asks || err != nil && (!errors.As(err, &refused) || refused.Status != http.StatusForbidden) {
			t.Errorf("%s asks: %v", who.name, err)
		}
		if who.asks {
			q.wantAsked(who.node + `/ about ""`)
		}
		before := q.tokensRefused("invalid")
		if err := c.Alive(t.Context(), to); err != nil {
			t.Errorf("no sign of life for %s: %v", who.name, err)
		}
		if refused := q.tokensRefused("invalid") > before; refused == who.lives {
			t.Errorf("%s asks for a sign of life: refused %v", who.name, refused)
		}
	}
	q.wantAsked()
}

// A request to another path, with another method or with a body gets an error, and so does a question that panics.
func TestNoQuestion(t *testing.T) {
	q := startQuestioned(t, nil)
	for head, status := range map[string]int{
		"GET /colonnade/v1/other HTTP/1.1\r\nHost: x\r\n\r\n":                             404,
		"GET /colonnade/v1/owned/ HTTP/1.1\r\nHost: x\r\n\r\n":                            404,
		"POST " + hop.PathOwned + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n":     405,
		"GET " + hop.PathOwned + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}":    400,
		"GET " + hop.PathAlive + " HTTP/1.1\r\nHost: x\r\nX_Colonnade_Hop: a\r\n\r\n":     400,
		"GET " + hop.PathAlive + " HTTP/1.1\r\nHost: x\r\nContent-Length: 999999\r\n\r\n": 400,
	} {
		if answer := q.connect().send(t, []byte(head)); answer.StatusCode != status || !answer.Close {
			t.Errorf("%q: answered %d, closes %v; want %d", head, answer.StatusCode, answer.Close, status)
		}
	}
	q.wantAsked()
	q.config.Owned = func(homes.Process, string) homes.Answer { panic("a bug of ours") }
	var refused *peer.NoVerdictError
	if _, err := q.client("ams-2", nil).Ask(t.Context(), q.server(), peer.Question{}); !errors.As(err, &refused) || refused.Status != 500 {
		t.Errorf("a panic: %v", err)
	}
	q.config.Owned = nil
	if _, err := q.client("ams-2", nil).Ask(t.Context(), q.server(), peer.Question{}); !errors.As(err, &refused) || refused.Status != 404 {
		t.Errorf("a server that answers no questions: %v", err)
	}
	answer, err := q.signedGet(hop.PathAlive)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	if _ = answer.Body.Close(); answer.StatusCode != 204 || len(body) != 0 {
		t.Errorf("its sign of life: %d %s", answer.StatusCode, body)
	}
}
