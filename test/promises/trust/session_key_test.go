package trust_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/accounts"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// The key of a browser, which cannot set headers, comes as a subprotocol and is not sent on.
func TestSessionKeyInSubprotocol(t *testing.T) {
	t.Parallel()
	key, doc := accounts.NewKey("alice", "", time.Now(), time.Time{})
	seen := make(chan *http.Request, 4)
	engine := echoEngine(t, seen)
	f := fleettest.Start(t, onebox.Config{Engine: fleettest.QuickEngine(1), Colos: []string{"ams"}}, fmt.Sprintf(`
key: keys/%s
account: alice
sha256: "%x"
---
key: models/echo
type: realtime
---
key: endpoints/ams/echo
url: %s
pool: echo
concurrency: 1
paths: {/v1/realtime: /speak}
names: {echo: echo/1+more}
`, doc.ID, doc.SHA256, engine))
	f.WatchShared(4)
	d := websocket.Dialer{HandshakeTimeout: testkit.Timeout, Subprotocols: []string{"realtime", "openai-insecure-api-key." + key, "openai-beta.realtime-v1"}}
	c, answer, err := d.Dial(f.RealtimeURL("echo"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := fleettest.Session{Conn: c, T: t, Header: answer.Header}
	if c.Subprotocol() != "realtime" {
		t.Errorf("subprotocol %q", c.Subprotocol())
	}
	for kind, want := range map[int]string{websocket.TextMessage: "text \u00e4", websocket.BinaryMessage: "\x00\xff\x01"} {
		if err := c.WriteMessage(kind, []byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, message, err := c.ReadMessage(); err != nil || got != kind || string(message) != want {
			t.Errorf("%q came back as %d %q, %v", want, got, message, err)
		}
	}
	s.HangUp(1000, "")
	s.ExpectClose(1000, "")
	request, inference := f.LastEvents(s.Header.Get("x-request-id"))
	if request.Account != "alice" || inference.Account != "alice" {
		t.Errorf("the accounts are %q and %q", request.Account, inference.Account)
	}
	r := <-seen
	if r.URL.Path != "/speak" || r.URL.Query().Get("model") != "echo/1+more" || r.Header.Get("Sec-Websocket-Protocol") != "realtime" {
		t.Errorf("the engine was asked for %s with %v", r.URL, r.Header)
	}
	if all := fmt.Sprint(r.Header, r.URL); strings.Contains(all, key) || strings.Contains(strings.ToLower(all), "x-colonnade") {
		t.Errorf("the engine got internal headers or the key: %s", all)
	}
}

// echoEngine returns the URL of an engine that answers each message with itself. seen gets its handshakes.
func echoEngine(t *testing.T, seen chan<- *http.Request) string {
	t.Helper()
	var up websocket.Upgrader
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			return // a health check
		}
		seen <- r
		c, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, message, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}
