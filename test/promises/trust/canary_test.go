package trust_test

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/accounts"
	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// No prompt, completion or key is in a log, a metric, a page, an event or a file, however the request ends.
func TestNoPromptOrKeyIsKept(t *testing.T) {
	t.Parallel()
	const prompt = "canary-in-the-prompt" // in the completion, too, since the engine echoes
	key, entry := accounts.NewKey("acme", "canary", time.Now(), time.Time{})
	secret := strings.TrimPrefix(key, "cn_canary_")
	logged := &testkit.SyncBuffer{}
	c := onebox.Config{Engine: fleettest.QuickEngine(4)}
	c.Logger = func(name string) *slog.Logger {
		return slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug})).With("from", name)
	}
	f := fleettest.StartClosed(t, c, fleettest.APIKeyDocument(t, entry))
	f.Key = key
	f.WatchShared(8)

	message := `"messages":[{"role":"user","content":"echo: ` + prompt + `"}]}`
	good := `{"model":"demo-chat",` + message
	ask := func(status int, body string, headers ...string) {
		t.Helper()
		a := f.Chat(body, headers...)
		if a.Status != status {
			t.Errorf("%.60s…: %d, want %d: %s", body, a.Status, status, a.Body)
		}
		if a.Status == http.StatusOK && a.Err == nil != strings.Contains(a.Body, prompt) {
			t.Errorf("%.60s…: %v: %s", body, a.Err, a.Body)
		}
		if strings.Contains(a.Body, secret) {
			t.Errorf("%.60s…: the response has a key: %s", body, a.Body)
		}
	}
	ask(200, good)
	ask(200, `{"stream":true,`+good[1:])
	ask(400, good[:len(good)-1])
	ask(400, `{"model":"demo-chat","`+prompt+`":1,"`+prompt+`":`)
	ask(404, `{"model":"none",`+message)
	for _, wrong := range []string{key + "x", key[:len(key)-1], "cn_other_" + secret, secret} {
		ask(401, good, "Authorization", "Bearer "+wrong)
	}
	ask(401, good, "Authorization", "Basic "+key)
	for _, header := range []string{"Api-Key", "X-Api-Key"} {
		ask(200, good, "Authorization", "", header, key)
		ask(200, `{"stream":true,`+good[1:], "Authorization", "", header, key)
		ask(401, good, "Authorization", "", header, key+"x")
		ask(401, good, header, key+"x") // beside the key
	}
	ask(400, good, "x-colonnade-queue", prompt)
	for _, fault := range []string{simengine.FaultError400, simengine.FaultError500, simengine.FaultCutAtChunk} {
		f.InjectFault(fault, 0)
		_ = f.Chat(good)
		_ = f.Chat(`{"stream":true,` + good[1:])
		f.ClearFaults()
	}
	// A key where browsers have to put it.
	d := websocket.Dialer{HandshakeTimeout: testkit.Timeout, Subprotocols: []string{"realtime", "openai-insecure-api-key." + key}}
	s, answer, err := d.Dial(f.RealtimeURL("demo-realtime"), nil)
	if err != nil {
		t.Fatalf("%v %v", err, answer)
	}
	_ = s.WriteMessage(websocket.TextMessage, []byte(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"echo: `+prompt+`"}]}}`))
	_ = s.WriteMessage(websocket.TextMessage, []byte(`{"type":"response.create"}`))
	_ = s.SetReadDeadline(time.Now().Add(testkit.Timeout))
	for done := false; !done; {
		_, data, err := s.ReadMessage()
		if err != nil {
			t.Fatal(err)
		}
		done = strings.Contains(string(data), `"response.done"`)
	}
	s.Close()
	if _, err := f.Post(context.Background(), "/chat/completions?api_key="+key, good); err != nil {
		t.Error(err)
	}

	_ = f.Chat(good, "x-request-id", "the-last-one")
	f.FinalEvent(analytics.KindRequest, "the-last-one")
	f.FinalEvent(analytics.KindInference, "the-last-one")
	search(f, logged, f.Dir, prompt, secret)
}

// search looks for texts in the log, in all spans, in all pages of the fleet, and in all files below a directory.
func search(f *fleettest.Fleet, logged *testkit.SyncBuffer, dir string, texts ...string) {
	f.T.Helper()
	check := func(where string, data []byte) {
		for _, text := range texts {
			if i := bytes.Index(data, []byte(text)); i >= 0 {
				f.T.Errorf("%s has %q: …%q", where, text, data[max(0, i-200):min(len(data), i+50)])
			}
		}
	}
	check("the log", []byte(logged.String()))
	if last := f.Chat(fleettest.ChatBody(1, false)); last.Status == 200 {
		spans.Await(f.T, last.Header.Get("x-request-id"), 3) // by then, those of all requests before have arrived
	} else {
		f.T.Errorf("the request that ends the test: %d %s", last.Status, last.Body)
	}
	check("what is exported as spans", spans.Raw())
	for _, n := range append([]onebox.ColoNode{{Running: f.Entry}}, f.Colos...) {
		for _, page := range []string{"/metrics", "/debug/fleet", "/debug/pools", "/debug/config", "/debug/check", "/debug/plan?model=demo-chat",
			"/debug/pprof/goroutine?debug=2", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline"} {
			check(n.Node+page, f.Page(n.Admin, page))
		}
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err == nil {
			files++
			check(path, data)
		}
		return err
	})
	if err != nil || files < 4 {
		f.T.Errorf("%d files: %v", files, err)
	}
}
