package refusals_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// A request for a path of another type than the model's reaches no engine, and its client learns the paths of the type.
func TestPathOfAnotherType(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), "")
	f.WatchShared(8)
	before := f.EngineRequests()
	if a := f.Chat(chatOf("demo-embed")); a.Status != 404 || !strings.Contains(a.Body, `"number":40005`) || !strings.Contains(a.Body, "it serves /v1/embeddings") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	a, err := f.Post(t.Context(), "/embeddings", `{"model":"demo-chat","input":"x"}`)
	if err != nil || a.Status != 404 || !strings.Contains(a.Body, "it serves /v1/chat/completions, /v1/completions, /v1/responses") {
		t.Errorf("%v %d %s", err, a.Status, a.Body)
	}
	if n := f.EngineRequests() - before; n != 0 {
		t.Errorf("the engine got %d requests", n)
	}
}

// The client and the log learn what an engine answered instead of serving: a path that it does not have, or a credential that it
// does not accept. Neither has text that could be a key.
func TestWordsOfEngines(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		engine         http.HandlerFunc
		status         int
		client, logged string
	}{
		{answer(404, `{"detail":"Not Found"}`), 404, `the engines of the model \"own\" do not have /v1/chat/completions; they may have /v1/completions`, `path=/v1/chat/completions reason="404: Not Found"`},
		{answer(401, `{"error":{"message":"Incorrect API key provided: sk-abcdef"}}`), 502, "the inference engine failed: it does not accept the credential",
			`status=401 model=own path=/v1/chat/completions said="Incorrect API key provided: …"`},
		{answer(400, `{"error":{"message":"max_tokens must be at most 4096"}}`), 400, "max_tokens must be at most 4096", `status=400 model=own path=/v1/chat/completions said="… must be at most …"`},
	} {
		logged := &testkit.SyncBuffer{}
		_, documents := fleettest.StartStubEngine(t, c.engine)
		config := onebox.Config{Colos: []string{"ams"}, Logger: func(string) *slog.Logger { return slog.New(slog.NewTextHandler(logged, nil)) }}
		f := fleettest.Start(t, config, documents)
		f.WatchShared(8)
		for range 2 {
			if a := f.Chat(fleettest.StubBody); a.Status != c.status || !strings.Contains(a.Body, c.client) || strings.Contains(a.Body, "127.0.0.1") {
				t.Errorf("%d %s, want %d with %s", a.Status, a.Body, c.status, c.client)
			}
		}
		if log := logged.String(); !strings.Contains(log, c.logged) || strings.Contains(log, "sk-abc") {
			t.Errorf("the log has no %s:\n%s", c.logged, log)
		}
	}
}
