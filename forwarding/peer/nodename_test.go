package peer_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/forwardtest"
	"colonnade/openai"
)

// carry sends a request to the server, which it knows to speak a protocol.
func (s *coloServer) carry(protocol int, token hop.Token, fields ...transport.Field) (*peer.Answer, error) {
	s.t.Helper()
	to := s.registered("boot")
	to.Protocol = protocol
	token.Total = hop.Millis(time.Minute)
	answer, err := s.client().To(to)(s.t.Context(), &peer.Request{
		Token: token, Route: openai.Route{API: openai.Chat, Path: "/v1/chat/completions"}, Fields: fields, Body: []byte("{}"),
		Limits: peer.Limits{Connect: forwardtest.Patience, End: time.Now().Add(forwardtest.Patience)},
	})
	if err == nil {
		answer.Close()
	}
	return answer, err
}

func stops(n int) []hop.Stop {
	var all []hop.Stop
	for i := range n {
		all = append(all, hop.Stop{Colo: fmt.Sprint("colo", i), Node: "n", Address: "10.0.0.7:8443", Boot: "ABCDEFGHIJKLM"})
	}
	return all
}

// A server learns names in the form that its protocol has. One of an older protocol could neither go on nor refuse to.
func TestNamesByProtocol(t *testing.T) {
	t.Parallel()
	f := func(protocol int, audience string, visited []string, onward int) {
		t.Helper()
		s := startColoServer(t, "boot")
		s.audience = audience
		given := []string{"fra/fra-1", "iad/iad-1"}
		if _, err := s.carry(protocol, hop.Token{Source: "entry-1", Visited: given, Onward: stops(2)}); err != nil {
			t.Fatal(err)
		}
		if got := s.served[0]; !slices.Equal(got.Visited, visited) || len(got.Onward) != onward {
			t.Errorf("a server of protocol %d gets %+v", protocol, got)
		}
		if !slices.Equal(given, []string{"fra/fra-1", "iad/iad-1"}) {
			t.Errorf("the names of the request became %q", given)
		}
		to := s.registered("boot")
		to.Protocol = protocol
		s.answerWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		asker := s.asker()
		asker.Colo, asker.Node = "fra", "fra-1"
		if err := asker.Alive(t.Context(), to); err != nil || len(s.served) != 2 || !slices.Equal(s.served[1].Visited, visited[:1]) {
			t.Errorf("a question to a server of protocol %d: %v, %+v", protocol, err, s.served)
		}
	}
	f(0, "ams-1", []string{"fra-1", "iad-1"}, 0)
	f(hop.NodeNamesProtocol-1, "ams-1", []string{"fra-1", "iad-1"}, 0)
	f(hop.NodeNamesProtocol, "ams/ams-1", []string{"fra/fra-1", "iad/iad-1"}, 2)
	f(hop.NodeNamesProtocol+1, "ams/ams-1", []string{"fra/fra-1", "iad/iad-1"}, 2)
}

// Nodes of different versions work together: a server gets requests and questions with tokens of the version that its protocol reads. No
// server of an older version reads a newer one.
func TestTokensByProtocol(t *testing.T) {
	t.Parallel()
	f := func(protocol int, audience, version string) {
		t.Helper()
		s := startColoServer(t, "boot")
		s.audience = audience
		given := hop.Token{Source: "entry-1", Account: "a", Visited: []string{"fra/fra-1"}, Onward: stops(2)}
		if _, err := s.carry(protocol, given, transport.Field{Name: "x-tenant", Value: "a"}); err != nil {
			t.Fatalf("protocol %d: %v", protocol, err)
		}
		to := s.registered("boot")
		to.Protocol = protocol
		if err := s.asker().Alive(t.Context(), to); err != nil {
			t.Errorf("a question to protocol %d: %v", protocol, err)
		}
		if s.served[0].Account != "a" || !slices.Equal(s.served[0].Headers.Names, []string{"x-tenant"}) || len(s.tokens) != 2 {
			t.Errorf("protocol %d: %+v", protocol, s.served)
		}
		for _, token := range s.tokens {
			if !strings.HasPrefix(token, version) {
				t.Errorf("a server of protocol %d gets a token %.3s, want %s", protocol, token, version)
			}
		}
	}
	f(0, "ams-1", "v2.")
	f(hop.NodeNamesProtocol, "ams/ams-1", "v2.")
	f(hop.BinaryTokenProtocol-1, "ams/ams-1", "v2.")
	f(hop.BinaryTokenProtocol, "ams/ams-1", "v3.")
	f(hop.BinaryTokenProtocol+1, "ams/ams-1", "v3.")
}

// Stops of the token do not make a head too large that would be served without them.
func TestStopsLeaveRoomForTheHead(t *testing.T) {
	t.Parallel()
	if peer.MaxHead != server.MaxHead {
		t.Errorf("the head of a request has %d bytes, and servers accept %d", peer.MaxHead, server.MaxHead)
	}
	f := func(size, least, most int) {
		t.Helper()
		s := startColoServer(t, "boot")
		s.audience = "ams/ams-1"
		head := 0
		s.answerWith(func(w http.ResponseWriter, r *http.Request) {
			head = len(r.Method) + len(r.RequestURI) + len(" HTTP/1.1\r\nHost: ") + len(r.Host) + len("\r\n\r\n")
			for name, values := range r.Header {
				head += len(name) + len(values[0]) + len(": \r\n")
			}
			w.Header().Set(hop.HeaderAttempts, "1")
		})
		if _, err := s.carry(hop.NodeNamesProtocol, hop.Token{Source: "entry-1", Onward: stops(16)}, transport.Field{Name: "x-tenant", Value: strings.Repeat("x", size)}); err != nil {
			t.Fatal(err)
		}
		if n := len(s.served[0].Onward); n < least || n > most || head > server.MaxHead {
			t.Errorf("beside %d bytes, %d stops are sent in a head of %d bytes; want %d to %d", size, n, head, least, most)
		}
	}
	f(1<<10, 16, 16)
	f(14<<10, 10, 15)
	f(15700, 0, 0)
}

// The answer to a request that was sent on has what the servers said that did not serve it, and which one served it. An answer that hides
// where the request was cannot be used.
func TestAnswerOfARequestSentOn(t *testing.T) {
	t.Parallel()
	s := startColoServer(t, "boot")
	s.audience = "ams/ams-1"
	visits := []hop.Visit{
		{Colo: "ams", Node: "ams-1", Verdict: hop.Verdict{Kind: hop.VerdictOOC, Reason: "queue_full", RetryAfter: time.Second}, Load: hop.Load{Held: 4, Limit: 4}, HasLoad: true},
		{Colo: "fra", Node: "fra-1", Verdict: hop.Verdict{Kind: hop.VerdictLost}},
	}
	f := func(headers ...string) (*peer.Answer, error) {
		s.answerWith(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			_, _ = w.Write([]byte("{}"))
		})
		return s.carry(hop.NodeNamesProtocol, hop.Token{Source: "entry-1"})
	}
	written := hop.FormatVisits(visits)
	a, err := f(hop.HeaderAttempts, "3", hop.HeaderRetries, "2", hop.HeaderVisits, written, hop.HeaderServedBy, "iad/iad-1", hop.HeaderLoad, "free=3")
	if err != nil || a.Response == nil || !reflect.DeepEqual(a.Visits, visits) || a.ServedBy != "iad/iad-1" || a.Load.Free != 3 || a.RetriesMade != 2 {
		t.Errorf("served: %+v, %v", a, err)
	}
	a, err = f(hop.HeaderAttempts, "0", hop.HeaderVisits, written, hop.HeaderVerdict, "ooc")
	if err != nil || a.Verdict.Kind != hop.VerdictOOC || !reflect.DeepEqual(a.Visits, visits) || a.ServedBy != "" {
		t.Errorf("refused: %+v, %v", a, err)
	}
	a, err = f(hop.HeaderAttempts, "1", hop.HeaderServedBy, "ams-1")
	if err != nil || a.Visits != nil || a.ServedBy != "" {
		t.Errorf("served by a server without its colo: %+v, %v", a, err)
	}
	for _, headers := range [][]string{
		{hop.HeaderAttempts, "1", hop.HeaderVisits, "ams/ams-1"},
		{hop.HeaderAttempts, "1", hop.HeaderVisits, strings.Repeat(written+",", 9) + written},
		{hop.HeaderVerdict, "ooc", hop.HeaderVisits, "ams/ams-1|ooc;number=x||"},
		{hop.HeaderVerdict, "lost"}, {hop.HeaderVerdict, "unread"},
	} {
		var without *peer.NoVerdictError
		if a, err := f(headers...); !errors.As(err, &without) || without.NotRead || without.Status != 200 {
			t.Errorf("%.80q: %+v, %v", headers, a, err)
		}
	}
}
