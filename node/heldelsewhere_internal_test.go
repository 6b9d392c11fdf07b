package node

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// A node that does not answer, or in whose place another one does, is reported, and not taken for one that holds nothing back.
func TestNodesThatDoNotSayWhatTheyHold(t *testing.T) {
	t.Parallel()
	at := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	held, unreachable := askHeld(t.Context(), []registeredNode{
		{"entries/good", "good", at(200, `{"node": "good", "pending_deletions": ["models/x"]}`)},
		{"entries/idle", "idle", at(200, `{"node": "idle", "pending_deletions": []}`)},
		{"servers/ams/1gone", "1gone", strings.TrimPrefix(gone.URL, "http://")},
		{"servers/ams/2other", "2other", at(200, `{"node": "good", "pending_deletions": []}`)},
		{"servers/ams/3refuses", "3refuses", at(403, `{"node": "3refuses", "pending_deletions": []}`)},
		{"servers/ams/4text", "4text", at(200, `ok`)},
		{"servers/ams/5old", "5old", at(200, `{"node": "5old"}`)},
		{"servers/ams/6none", "6none", ""},
	})
	if !slices.Equal(held, []string{"models/x"}) {
		t.Errorf("held: %q", held)
	}
	want := []string{"refused", `node "good" answers`, "answers 403", "cannot read the answer", "no pending_deletions", "no address"}
	if len(unreachable) != len(want) {
		t.Fatalf("got %q", unreachable)
	}
	for i, text := range want {
		if !strings.HasPrefix(unreachable[i], "servers/ams/") || !strings.Contains(unreachable[i], text) {
			t.Errorf("got %q, want %q", unreachable[i], text)
		}
	}
}
