package sdk

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/onebox"
	"colonnade/openai"
)

// textKinds and vectorKinds are the kinds of engines that serve models of these types. They are in the order in which pages list them.
var (
	textKinds   = []string{"vllm", "sglang", "llamacpp", "ollama", "tgi", "triton", "openai"}
	vectorKinds = []string{"vllm", "sglang", "llamacpp", "ollama", "tei", "triton", "openai"}
)

// kindFleet is a fleet with engines of each kind: for each of textKinds the models sim-KIND, and single-KIND, which has one slot and streams
// without end; for each of vectorKinds the model embed-KIND.
type kindFleet struct {
	*onebox.Fleet
	engines map[string]*simulated // by the name of the model
}

type simulated struct {
	*simengine.Engine
	url   string
	model string // as the engine names it
	kind  string
}

// startKinds starts a fleet that wants the key [apiKey].
func startKinds(t *testing.T) *kindFleet {
	t.Helper()
	f := &kindFleet{engines: map[string]*simulated{}}
	var documents strings.Builder
	add := func(model, kind string, slots int, c simengine.Config) {
		c.Kind, c.Slots, c.TTFT, c.Record = kind, slots, time.Millisecond, 1<<20
		c.Models = []string{"engine/" + model}
		e := &simulated{Engine: simengine.New(c), kind: kind, model: c.Models[0]}
		server := httptest.NewServer(e)
		t.Cleanup(func() {
			e.Close()
			server.Close()
		})
		e.url = server.URL
		f.engines[model] = e
		more := ""
		if kind == "ollama" {
			more = "allow_fields: [options]\n" // llama-index-llms-ollama sets num_ctx
		}
		fmt.Fprintf(&documents, "key: models/%[1]s\ntype: %[2]s\nupstream_name: engine/%[1]s\n%[6]s---\nkey: endpoints/ams/%[1]s\nurl: %[3]s\npool: %[1]s\nengine: %[4]s\nconcurrency: %[5]d\n---\n",
			model, c.Type, e.url, kind, slots, more)
	}
	for _, kind := range textKinds {
		add("sim-"+kind, kind, 8, simengine.Config{Type: "chat", ITL: time.Millisecond})
		add("single-"+kind, kind, 1, simengine.Config{Type: "chat", ITL: time.Hour})
	}
	for _, kind := range vectorKinds {
		add("embed-"+kind, kind, 8, simengine.Config{Type: "embedding"})
	}
	fmt.Fprintf(&documents, "key: keys/test\naccount: acme\nsha256: \"%x\"\n", sha256.Sum256([]byte(apiKey)))
	f.Fleet = fleettest.StartClosed(t, onebox.Config{Colos: []string{"ams"}, Drain: 2 * time.Second}, documents.String()).Fleet
	return f
}

// kindsWith returns the kinds whose engines have a path, or another one to which it is translated; all that serve text if the entry answers it.
func (f *kindFleet) kindsWith(t *testing.T, path string) (kinds []string) {
	t.Helper()
	route, e := openai.ParseRoute([]byte(http.MethodPost), []byte(path))
	if e != nil {
		route, e = openai.ParseRoute([]byte(http.MethodGet), []byte(path))
	}
	if e != nil {
		t.Fatalf("%s: %v", path, e)
	}
	if route.API.AboutModels() {
		return textKinds
	}
	all, prefix := textKinds, "sim-"
	if strings.Contains(path, "embed") {
		all, prefix = vectorKinds, "embed-"
	}
	for _, kind := range all {
		switch openai.EngineHas(kind, route) {
		case openai.Passed:
			if f.engines[prefix+kind].has(t, path) {
				kinds = append(kinds, kind)
			}
		case openai.Translated:
			counts := map[string]string{"tgi": "/chat_tokenize", "openai": "/tokenize"}[kind] // the path by which tokens are counted
			if route.API == openai.CountTokens && !f.engines[prefix+kind].has(t, counts) {
				continue
			}
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// has reports whether the engine has a path. EngineHas does not know that of paths which only some engines of a kind have.
func (s *simulated) has(t *testing.T, path string) bool {
	t.Helper()
	answer, err := http.Post(s.url+path, "application/json", strings.NewReader(`{"model":"`+s.model+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode != http.StatusNotFound
}
