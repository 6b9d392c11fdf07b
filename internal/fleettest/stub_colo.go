package fleettest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"colonnade/forwarding"
)

// StubColo is a colo server that says what a test wants, and remembers what it was asked.
type StubColo struct {
	*httptest.Server

	Mu    sync.Mutex // guards the fields below
	Asked []HopRequest
}

type HopRequest struct {
	Header http.Header
	Hop    forwarding.Hop
}

// StartStubColo starts the one server of a colo. verdict is its answer to a request that may wait so; empty = it serves.
func StartStubColo(t testing.TB, colo, node string, verdict func(forwarding.Wait) string) (s *StubColo, documents string) {
	s = &StubColo{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hop := readHop(t, r.Header)
		s.Mu.Lock()
		s.Asked = append(s.Asked, HopRequest{r.Header.Clone(), hop})
		s.Mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if v := verdict(hop.Wait); v != "" {
			w.Header().Set("x-colonnade-verdict", v)
			w.WriteHeader(http.StatusTooManyRequests)
		} else {
			w.Header().Set("x-colonnade-attempts", "1") // else it would be no engine's answer
		}
		fmt.Fprintf(w, `{"from":%q}`, colo)
	}))
	t.Cleanup(s.Close)
	return s, fmt.Sprintf("key: colos/%s\nregion: nowhere\n---\nkey: servers/%s/%s\naddress: %s\nboot: b\nstate: active\nprotocol: {min: 1, max: 1}\n---\n",
		colo, colo, node, strings.TrimPrefix(s.URL, "http://"))
}

// readHop reads a token as anybody can; only its signature needs the key.
func readHop(t testing.TB, h http.Header) (hop forwarding.Hop) {
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

// Waits is how a stand-in was asked, in order.
func (s *StubColo) Waits() (all []string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for _, r := range s.Asked {
		all = append(all, string(r.Hop.Wait))
	}
	return all
}
