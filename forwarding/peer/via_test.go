package peer_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/internal/testkit"
)

// A client connects to the address that Via returns, also for signs of life, and what it sends names the server itself.
func TestVia(t *testing.T) {
	var hosts []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		w.Header().Set(hop.HeaderAttempts, "1")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	defer proxy.Close()
	s := startColoServer(t, "boot")
	s.URL = "http://" + testkit.Unreachable(t)
	want := peer.Server{Colo: "ams", Node: "ams-1", Address: strings.TrimPrefix(s.URL, "http://"), Boot: "boot"}
	c := s.client()
	c.Via = func(to peer.Server) string {
		if to != want {
			t.Errorf("the server is %+v, want %+v", to, want)
		}
		return proxy.Listener.Addr().String()
	}
	if err := s.send(c, "boot"); err != nil {
		t.Error(err)
	}
	if err := c.Alive(t.Context(), want); err != nil {
		t.Error(err)
	}
	if len(hosts) != 2 || hosts[0] != want.Address || hosts[1] != want.Address {
		t.Errorf("the requests were for %q, want two for %s", hosts, want.Address)
	}
}
