package fleettest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"colonnade/forwarding/hop"
)

// StubColo is a colo server whose verdicts a test chooses. It records its requests, and always answers that it lives.
type StubColo struct {
	*httptest.Server

	mu       sync.Mutex // guards the field below
	requests []HopRequest
}

// HopRequest is a request between nodes, with what its hop token says.
type HopRequest struct {
	Header http.Header
	Hop    hop.Token
}

// StartStubColo runs the only server of a colo, and returns the documents of both. verdict says, by whether and how long
// a request may wait, with which verdict to refuse it; empty = it is served.
func StartStubColo(t testing.TB, colo, node string, verdict func(hop.Wait) string) (s *StubColo, documents string) {
	t.Helper()
	NeedsFleet(t, "a server of another process")
	s = &StubColo{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == hop.PathAlive {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		hop := readHop(t, r.Header)
		s.mu.Lock()
		s.requests = append(s.requests, HopRequest{r.Header.Clone(), hop})
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if v := verdict(hop.Wait); v != "" {
			w.Header().Set("x-colonnade-verdict", v)
			w.WriteHeader(http.StatusTooManyRequests)
		} else {
			w.Header().Set("x-colonnade-attempts", "1") // marks an engine's response
		}
		fmt.Fprintf(w, `{"from":%q}`, colo)
	}))
	t.Cleanup(s.Close)
	return s, fmt.Sprintf("key: colos/%s\nregion: nowhere\n---\nkey: servers/%s/%s\naddress: %s\nboot: b\nstate: active\nprotocol: {min: 1, max: 1}\n---\n",
		colo, colo, node, strings.TrimPrefix(s.URL, "http://"))
}

// readHop reads a hop token without verifying it, which takes no key.
func readHop(t testing.TB, h http.Header) (hop hop.Token) {
	parts := strings.Split(h.Get("x-colonnade-hop"), ".")
	if len(parts) != 3 {
		t.Errorf("no hop token: %v", h)
		return hop
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(payload, &hop)
	}
	if err != nil {
		t.Errorf("cannot read the hop token: %v", err)
	}
	return hop
}

// Requests returns the requests that came so far, in order.
func (s *StubColo) Requests() []HopRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Waits returns how each request might wait, in order.
func (s *StubColo) Waits() (all []string) {
	for _, r := range s.Requests() {
		all = append(all, string(r.Hop.Wait))
	}
	return all
}
