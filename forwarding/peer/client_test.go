package peer_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
	"colonnade/reasons"
)

// coloServer is a server that verifies tokens as a colo server does, for whichever process it is now.
type coloServer struct {
	*httptest.Server
	t        *testing.T
	keys     *hop.Keys
	audience string // that it has in tokens

	mu       sync.Mutex // guards the fields below
	boot     string     // of the process that it is
	guard    *hop.ReplayGuard
	refuse   error            // for each token, whatever it is
	answer   http.HandlerFunc // of a good token; nil = an empty object
	slowly   time.Duration    // before a token for another process is refused
	requests int
	tokens   []string
	seen     []hop.Token
	served   []hop.Token
}

func startColoServer(t *testing.T, boot string) *coloServer {
	s := &coloServer{t: t, keys: hop.RandomKeys(), audience: "ams-1"}
	s.restart(boot)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *coloServer) restart(boot string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boot, s.guard = boot, hop.NewReplayGuard(boot)
}

func (s *coloServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	s.tokens = append(s.tokens, r.Header.Get(hop.HeaderToken))
	var v hop.Verified
	err := s.keys.VerifyHead(&v, []byte(r.Header.Get(hop.HeaderToken)), &hop.Binding{
		Audience: s.audience, Method: r.Method, Target: r.URL.RequestURI(),
		AppendHeader: func(dst []byte, name string) []byte { return append(dst, r.Header.Get(name)...) },
	}, time.Now())
	s.seen = append(s.seen, v.Token)
	if err == nil {
		err = errors.Join(v.VerifyBody(body), s.guard.Claim(&v.Token, time.Now()), s.refuse)
	}
	switch {
	case errors.Is(err, hop.ErrReplayed):
		w.Header().Set(hop.HeaderReason, reasons.HopTokenReplayed)
	case errors.Is(err, hop.ErrSignAgain):
		time.Sleep(s.slowly)
		w.Header().Set(hop.HeaderBoot, s.boot)
	case err == nil:
		s.served = append(s.served, v.Token)
		if s.answer != nil {
			s.answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(hop.HeaderAttempts, "1")
		_, _ = io.WriteString(w, "{}")
		return
	default:
		s.t.Errorf("refused: %v", err)
	}
	w.WriteHeader(http.StatusForbidden)
}

// ask sends a request to the server, registered with a boot id, and expects that it takes so many requests on the wire.
func (s *coloServer) ask(c *peer.Client, registered string, wire int) error {
	s.t.Helper()
	s.mu.Lock()
	before := s.requests
	s.mu.Unlock()
	err := s.send(c, registered)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.requests - before; n != wire {
		s.t.Errorf("the server, registered as %s, got %d requests, want %d; %v", registered, n, wire, err)
	}
	return err
}

func (s *coloServer) send(c *peer.Client, registered string) error {
	to := peer.Server{Colo: "ams", Node: "ams-1", Address: strings.TrimPrefix(s.URL, "http://"), Boot: registered}
	answer, err := c.To(to)(s.t.Context(), &peer.Request{
		Token: hop.Token{Source: "entry-1", Total: hop.Millis(time.Minute)}, Route: openai.Route{API: openai.Chat, Path: "/v1/chat/completions"},
		Fields: []transport.Field{{Name: "Content-Type", Value: "application/json"}, {Name: "x-tenant", Value: "a"}, {Name: "x-none"}},
		Body:   []byte("{}"),
		Limits: peer.Limits{Connect: forwardtest.Patience, End: time.Now().Add(forwardtest.Patience)},
	})
	if err == nil {
		answer.Close()
	}
	return err
}

func (s *coloServer) client() *peer.Client {
	return &peer.Client{Transport: forwardtest.NewTransport(s.t), Keys: s.keys}
}

// A server that has been restarted, or whose document names no process of it, costs one further request; after that the client knows
// the process.
func TestServerIsAnotherProcess(t *testing.T) {
	s := startColoServer(t, "first")
	c := s.client()
	for _, step := range []struct {
		registered string
		wire       int
	}{{"first", 1}, {"first", 1}, {"by hand", 2}, {"by hand", 1}, {"first", 1}} {
		if err := s.ask(c, step.registered, step.wire); err != nil {
			t.Error(err)
		}
	}
	s.restart("second")
	for _, step := range []struct {
		registered string
		wire       int
	}{{"first", 2}, {"first", 1}, {"second", 1}, {"by hand", 2}, {"by hand", 1}, {strings.Repeat("long", 5000), 2}, {"", 1}} {
		if err := s.ask(c, step.registered, step.wire); err != nil {
			t.Error(err)
		}
	}
	issuers := map[string]bool{}
	for _, token := range s.served {
		issuers[token.Issuer] = true
		if token.Total <= 0 || token.Total > hop.Millis(time.Minute) || len(token.Headers.Names) != 1 {
			t.Errorf("served %+v", token)
		}
	}
	if len(issuers) != 2 {
		t.Errorf("%d sequences for two processes", len(issuers))
	}
}

// While two processes answer at one address, the client finds the one that answers, each time.
func TestTwoProcessesTakeTurns(t *testing.T) {
	s := startColoServer(t, "new")
	c := s.client()
	for _, step := range []struct {
		boot string
		wire int
	}{{"new", 1}, {"old", 2}, {"new", 2}, {"new", 1}, {"old", 2}} {
		s.restart(step.boot)
		if err := s.ask(c, "new", step.wire); err != nil {
			t.Errorf("answered by the %s process: %v", step.boot, err)
		}
	}
	issuers := map[string]bool{}
	for _, token := range s.served {
		issuers[token.Issuer] = true
	}
	if len(issuers) != 2 {
		t.Errorf("%d sequences for two processes", len(issuers))
	}
}

// A request is signed again once at most, and not at all if another sender has used its token.
func TestRequestIsSignedAgainOnce(t *testing.T) {
	s := startColoServer(t, "boot")
	c := s.client()
	var refused *peer.NoVerdictError
	s.refuse = hop.ErrSignAgain
	if err := s.ask(c, "boot", 2); !errors.As(err, &refused) || !refused.NotRead || refused.Replayed {
		t.Errorf("a server that refuses every token: %v", err)
	}
	s.refuse = hop.ErrReplayed
	if err := s.ask(c, "boot", 1); !errors.As(err, &refused) || refused.NotRead || !refused.Replayed {
		t.Errorf("a token that was used before: %v", err)
	}
	s.refuse = nil
	for range 2 {
		if err := s.ask(c, "boot", 1); err != nil {
			t.Error(err)
		}
	}
	if first, next := s.seen[0], s.served; next[0].Issuer == first.Issuer || next[1].Issuer != next[0].Issuer || next[1].Number != 2 {
		t.Errorf("after a token that was used before, the sequence goes on: %+v, %+v", first, next)
	}
}

// Requests that are sent at once, while the server is restarted, are all served.
func TestRestartUnderLoad(t *testing.T) {
	s := startColoServer(t, "boot 0")
	c := s.client()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if err := s.send(c, "boot 0"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	s.restart("boot 1")
	all.Wait()
	if len(s.served) != 160 {
		t.Errorf("%d requests were served", len(s.served))
	}
}
