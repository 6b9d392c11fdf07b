package peer_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/internal/forwardtest"
	"colonnade/internal/testkit"
	"colonnade/openai"
)

// Links are opened to servers that have them, for requests whose answers are not long, unless the client is to do without.
func TestLinksToServersThatHaveThem(t *testing.T) {
	ask := func(multiplex bool, protocol int, api openai.API) (again func(), links *atomic.Int32) {
		links = new(atomic.Int32)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == hop.PathLink {
				links.Add(1)
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(hop.HeaderAttempts, "1")
			_, _ = io.WriteString(w, "{}")
		}))
		t.Cleanup(s.Close)
		client := &peer.Client{Node: "entry-1", Transport: forwardtest.NewTransport(t), Keys: hop.RandomKeys(), Multiplex: multiplex}
		to := peer.Server{Colo: "ams", Node: "ams-1", Address: strings.TrimPrefix(s.URL, "http://"), Boot: "b", Protocol: protocol}
		return func() {
			t.Helper()
			a, err := client.To(to)(t.Context(), &peer.Request{
				Route: openai.Route{API: api, Path: "/v1/chat/completions"}, Body: []byte("{}"),
				Limits: peer.Limits{Connect: forwardtest.Patience, End: time.Now().Add(forwardtest.Patience)},
			})
			if err != nil {
				t.Fatal(err)
			}
			a.Close()
		}, links
	}
	old, oldLinks := ask(true, hop.LinkProtocol-1, openai.Chat)
	alone, aloneLinks := ask(false, hop.LinkProtocol, openai.Chat)
	long, longLinks := ask(true, hop.LinkProtocol, openai.Images)
	for range 5 {
		long()
		old()
		alone()
	}
	again, links := ask(true, hop.LinkProtocol, openai.Chat)
	testkit.WaitFor(t, "a link to be opened", func() bool {
		again()
		return links.Load() > 0
	})
	if oldLinks.Load()+aloneLinks.Load()+longLinks.Load() != 0 {
		t.Errorf("%d links to a server of an older version, %d of a client without links, %d for images", oldLinks.Load(), aloneLinks.Load(), longLinks.Load())
	}
}
