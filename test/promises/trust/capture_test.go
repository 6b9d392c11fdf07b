package trust_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/accounts"
	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// The content of an account whose requests are captured is in its sink and nowhere else, in one place as in a fleet; that of another
// account is nowhere, and neither is a key.
func TestCaptureIsTheOnlyPlaceWithContent(t *testing.T) {
	for _, serve := range []bool{false, true} {
		t.Run(fmt.Sprintf("serve=%t", serve), func(t *testing.T) {
			t.Parallel()
			testCaptureIsTheOnlyPlace(t, serve)
		})
	}
}

func testCaptureIsTheOnlyPlace(t *testing.T, serve bool) {
	const prompt, otherPrompt = "canary-of-acme", "canary-of-beta" // in the completions, too, since the engine echoes
	key, entry := accounts.NewKey("acme", "canary", time.Now(), time.Time{})
	otherKey, other := accounts.NewKey("beta", "other", time.Now(), time.Time{})
	sink := filepath.Join(t.TempDir(), "acme.jsonl") // outside of the directories of the fleet
	until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	logged := &testkit.SyncBuffer{}
	c := onebox.Config{Engine: fleettest.QuickEngine(4)}
	if serve {
		c = fleettest.OneColo(c.Engine)
		c.Serve = true
	}
	c.Logger = func(name string) *slog.Logger {
		return slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})).With("from", name)
	}
	f := fleettest.StartClosed(t, c, fleettest.APIKeyDocument(t, entry)+"---\n"+fleettest.APIKeyDocument(t, other)+
		"---\nkey: captures/debug\naccount: acme\nsink: file:"+sink+"\nuntil: "+until+"\n")
	f.Key = key
	f.WatchShared(8)
	testkit.WaitFor(t, "the capture", func() bool {
		return strings.Contains(string(f.Page(f.Entry.Admin, "/debug/config")), "capture_running")
	})
	body := func(prompt string) string {
		return `{"model":"demo-chat","messages":[{"role":"user","content":"echo: ` + prompt + `"}]}`
	}
	sent := 0
	ask := func(status int, body string, headers ...string) {
		t.Helper()
		sent++
		a := f.Chat(body, headers...)
		if a.Status != status || a.Header.Get(hop.HeaderCaptured) != until {
			t.Errorf("%.60s…: %d %v, want %d: %s", body, a.Status, a.Header, status, a.Body)
		}
	}
	good := body(prompt)
	ask(200, good)
	ask(200, `{"stream":true,`+good[1:])
	ask(400, good[:len(good)-1])
	ask(404, strings.Replace(good, "demo-chat", "none", 1))
	f.InjectFault(simengine.FaultError500, 0)
	ask(502, good)
	f.ClearFaults()
	f.Key = otherKey
	if a := f.Chat(body(otherPrompt)); a.Status != 200 || a.Header.Get(hop.HeaderCaptured) != "" {
		t.Errorf("a request of another account: %d %v", a.Status, a.Header)
	}
	f.Key = "cn_none_WRONG"
	if a := f.Chat(good); a.Status != http.StatusUnauthorized || a.Header.Get(hop.HeaderCaptured) != "" {
		t.Errorf("a request without a valid key: %d %v", a.Status, a.Header)
	}
	f.Key = key
	ask(200, good, "x-request-id", "the-last-one")
	f.FinalEvent(analytics.KindRequest, "the-last-one")
	f.FinalEvent(analytics.KindInference, "the-last-one")
	var captured string
	testkit.WaitFor(t, "the records", func() bool {
		data, _ := os.ReadFile(sink)
		captured = string(data)
		return strings.Count(captured, `"the-last-one"`) > 0
	})
	if n := strings.Count(captured, `echo: `+prompt); n != sent {
		t.Errorf("%d prompts of %d requests are captured:\n%s", n, sent, captured)
	}
	if n := strings.Count(captured, prompt); n != 2*sent-3 { // three requests have no completion
		t.Errorf("the capture has the canary %d times, want %d:\n%s", n, 2*sent-3, captured)
	}
	for _, secret := range []string{otherPrompt, strings.TrimPrefix(key, "cn_canary_"), strings.TrimPrefix(otherKey, "cn_other_")} {
		if strings.Contains(captured, secret) {
			t.Errorf("the capture has %q:\n%s", secret, captured)
		}
	}
	if info, err := os.Stat(sink); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	search(f, logged, f.Dir, prompt, otherPrompt, strings.TrimPrefix(key, "cn_canary_"))
}
