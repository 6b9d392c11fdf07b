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

// These are the kinds of engines whose simulated engine serves models of a type. They are in the order in which pages list them.
var (
	textKinds   = []string{"vllm", "sglang", "llamacpp", "ollama", "tgi", "triton", "openai"}
	vectorKinds = []string{"vllm", "sglang", "llamacpp", "ollama", "tei", "triton", "openai"}
	audioKinds  = []string{"vllm", "sglang", "llamacpp", "ollama", "openai"}
	otherKinds  = []string{"openai"} // of images and of realtime sessions
)

// kindFleet is a fleet with engines of each kind: for each of textKinds the models sim-KIND, and single-KIND, which has one slot and streams
// without end; for each of vectorKinds the model embed-KIND, of audioKinds audio-KIND, and of otherKinds image-KIND and realtime-KIND. The models
// loading-ollama and loading-single-ollama are as sim-ollama and single-ollama, and allow the options for which Ollama loads a model again.
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
	more := "" // of the model's document
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
	for _, kind := range audioKinds {
		add("audio-"+kind, kind, 8, simengine.Config{Type: "audio", ITL: time.Millisecond})
	}
	for _, kind := range otherKinds {
		add("image-"+kind, kind, 8, simengine.Config{Type: "image", ITL: time.Millisecond})
		add("realtime-"+kind, kind, 8, simengine.Config{Type: "realtime", ITL: time.Millisecond})
	}
	more = "allow_fields: [options]\n"
	add("loading-ollama", "ollama", 8, simengine.Config{Type: "chat", ITL: time.Millisecond})
	add("loading-single-ollama", "ollama", 1, simengine.Config{Type: "chat", ITL: time.Hour})
	fmt.Fprintf(&documents, "key: keys/test\naccount: acme\nsha256: \"%x\"\n", sha256.Sum256([]byte(apiKey)))
	f.Fleet = fleettest.StartClosed(t, onebox.Config{Colos: []string{"ams"}, Drain: 2 * time.Second}, documents.String()).Fleet
	return f
}

// kindsWith returns the kinds whose engines have a path, or another one to which it is translated; all that serve text if the entry answers it.
func (f *kindFleet) kindsWith(t *testing.T, path string) (kinds []string) {
	t.Helper()
	route, e := openai.ParseRoute([]byte(http.MethodPost), []byte(path))
	if e != nil {
		route, e = openai.ParseRoute([]byte(http.MethodGet), []byte(path+"?model=any"))
	}
	if e != nil {
		t.Fatalf("%s: %v", path, e)
	}
	if route.API.AboutModels() {
		return textKinds
	}
	all, prefix := textKinds, "sim-"
	switch {
	case strings.Contains(path, "embed"):
		all, prefix = vectorKinds, "embed-"
	case strings.HasPrefix(path, "/v1/audio/"):
		all, prefix = audioKinds, "audio-"
	case strings.HasPrefix(path, "/v1/images/"):
		all, prefix = otherKinds, "image-"
	case route.API == openai.Realtime:
		return otherKinds
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
