package engines

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// registered returns an engine's endpoint as a table has it, and the keys of the other documents.
func registered(t *testing.T, p Place, e *Engine) (*fleet.Endpoint, []string) {
	t.Helper()
	doc, shared, err := p.Register(e)
	if err != nil {
		t.Fatal(err)
	}
	set := document.NewSet()
	var keys []string
	for _, d := range append(shared, doc) {
		if err := set.Put(d.Key, d.Value, 1); err != nil {
			t.Fatalf("%s: %v\n%s", d.Key, err, d.Value)
		}
		keys = append(keys, d.Key)
	}
	endpoint, ok := set.Noun(doc.Key).(*fleet.Endpoint)
	if !ok {
		t.Fatalf("no endpoint:\n%s", doc.Value)
	}
	return endpoint, keys[:len(keys)-1]
}

func llama() *Engine {
	return &Engine{URL: "http://10.0.0.7:8000", Kind: "vllm", Version: "0.11.0", Slots: 32, Models: []Model{
		{Name: "llama", Upstream: "org/llama:8b#", Type: fleet.TypeChat, MaxModelLen: 8192},
	}}
}

// An operator's fields replace what was found, and the keys of maps are added to it.
func TestRegisteredEndpointHasTheFieldsOfTheOperator(t *testing.T) {
	t.Parallel()
	place := Place{Colo: "ams", ID: "gpu-1", Pool: "chat", Fields: map[string]any{
		"concurrency": 7, "weight": 3.0, "names": map[string]any{"other": "o"}, "health": map[string]any{"path": "/ready", "timeout": "3s"},
		"credential": "env:COLONNADE_CREDENTIAL_X",
	}}
	e, keys := registered(t, place, llama())
	if e.Concurrency != 7 || e.Weight != 3 || e.Pool != "chat" || e.ID != "gpu-1" || e.Colo != "ams" || e.Engine != "vllm" {
		t.Errorf("%+v", e)
	}
	if e.Names["llama"] != "org/llama:8b#" || e.Names["other"] != "o" {
		t.Errorf("names: %v", e.Names)
	}
	if e.Health.Path != "/ready" || e.Health.Timeout.Std() != 3*time.Second || e.Health.Interval.Std() != 5*time.Second {
		t.Errorf("health: %+v", e.Health)
	}
	if got := strings.Join(keys, " "); got != "pools/chat models/llama" {
		t.Errorf("documents: %s", got)
	}
}

func TestRegisteredEndpointHasTheNamesOfServe(t *testing.T) {
	t.Parallel()
	e, keys := registered(t, Place{Colo: "ams", ID: "x"}, llama())
	if e.Pool != "llama" || e.Concurrency != 32 || !e.Serves() {
		t.Errorf("%+v", e)
	}
	if got := strings.Join(keys, " "); got != "pools/llama models/llama" {
		t.Errorf("documents: %s", got)
	}
	_, shared, err := Place{Colo: "ams", ID: "x"}.Register(llama())
	if err != nil || strings.Contains(string(shared[1].Value), aliasDefault) {
		t.Errorf("a registered engine takes the name default: %s, %v", shared[1].Value, err)
	}
}

// An engine that is out keeps its document, with no slot and the reason.
func TestRegisteredEndpointIsOut(t *testing.T) {
	t.Parallel()
	place := Place{Colo: "ams", ID: "x", Out: "GPU 3\nhas\x1b fallen off the bus <<&a *a " + strings.Repeat("é", 1024),
		Fields: map[string]any{"concurrency": "auto", "auto": map[string]any{"min": 1, "max": 8}}}
	e, _ := registered(t, place, llama())
	if e.Serves() || e.Concurrency != 0 || e.State != fleet.StateDraining || !strings.HasPrefix(e.StateReason, "GPU 3 has fallen off the bus <<&a *a é") {
		t.Errorf("%+v", e)
	}
	place.Out = ""
	if e, _ := registered(t, place, llama()); e.Auto == nil || !e.Serves() {
		t.Errorf("in again: %+v", e)
	}
	place.Fields = nil
	none := llama()
	none.Models = nil
	if e, keys := registered(t, place, none); e.Serves() || len(keys) > 0 || !strings.Contains(e.StateReason, "lists no model") {
		t.Errorf("without a model: %+v, %v", e, keys)
	}
}

func TestFieldThatIsRefusedIsNamed(t *testing.T) {
	t.Parallel()
	_, _, err := Place{Colo: "ams", ID: "x", Fields: map[string]any{"weight": -1}}.Register(llama())
	invalid := (*document.InvalidError)(nil)
	if !errors.As(err, &invalid) || invalid.Field != "weight" {
		t.Errorf("%v", err)
	}
}

// A question has the engine's API key, and says what to do where it is missing.
func TestQuestionHasTheKey(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path != "/v1/models" && r.URL.Path != "/health" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"m"}]}`))
	})
	e, err := Question{URL: url, Key: "secret"}.Ask(t.Context())
	if err != nil || len(e.Models) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	if err := (Question{URL: url, Key: "secret"}).Healthy(t.Context(), "/health", time.Minute); err != nil {
		t.Error(err)
	}
	_, err = Question{URL: url}.Ask(t.Context())
	if err == nil || !strings.Contains(err.Error(), "set credential=env:COLONNADE_CREDENTIAL_NAME") {
		t.Errorf("without a key: %v", err)
	}
}

func TestHealthySaysWhyNot(t *testing.T) {
	t.Parallel()
	silent, end := context.WithCancel(t.Context())
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-silent.Done()
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	t.Cleanup(end)
	q := Question{URL: url}
	if err := q.Healthy(t.Context(), "/health", time.Minute); err == nil || !strings.HasSuffix(err.Error(), "GET /health answers 503 Service Unavailable") {
		t.Errorf("503: %v", err)
	}
	if err := q.Healthy(t.Context(), "/silent", 20*time.Millisecond); err == nil || !strings.HasSuffix(err.Error(), "no answer within 20ms") {
		t.Errorf("silent: %v", err)
	}
	if err := (Question{URL: "127.0.0.1:1"}).Healthy(t.Context(), "/health", time.Minute); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refused: %v", err)
	}
}
