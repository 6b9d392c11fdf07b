package deploy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// engines replaces the engines of two-regions.yaml: it answers as they do, and records the requests.
type engines struct {
	mu   sync.Mutex // guards what follows
	seen []string   // "engine METHOD path authorization body"
}

func (e *engines) saw(r *http.Request, engine, body string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, fmt.Sprintf("%s %s %s %s %s", engine, r.Method, r.URL.Path, r.Header.Get("Authorization"), body))
}

// asked reports whether a request matches a pattern.
func (e *engines) asked(pattern string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.seen, regexp.MustCompile("^"+pattern+"$").MatchString)
}

func (e *engines) serve(w http.ResponseWriter, r *http.Request, engine string) {
	body, _ := io.ReadAll(r.Body)
	e.saw(r, engine, string(body))
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodGet:
		fmt.Fprint(w, `{}`)
	case r.URL.Path == "/v1/chat/completions":
		fmt.Fprint(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	case r.URL.Path == "/v1/embeddings":
		fmt.Fprint(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`)
	case r.URL.Path == "/rerank" && strings.Contains(string(body), `"texts":[`):
		fmt.Fprint(w, `[{"index":0,"score":0.9}]`)
	case r.URL.Path == "/rerank": // TEI's framework says so, in plain text
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, "Failed to deserialize the JSON body into the target type: missing field `texts`")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// documents returns two-regions.yaml with the addresses of these engines.
func (e *engines) documents(t *testing.T) string {
	t.Helper()
	documents := text(t, "two-regions.yaml")
	for _, m := range regexp.MustCompile(`key: endpoints/(\S+)[^\n]*\nurl: (\S+)`).FindAllStringSubmatch(documents, -1) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.serve(w, r, m[1]) }))
		t.Cleanup(server.Close)
		documents = strings.Replace(documents, m[2], server.URL, 1)
	}
	return documents
}

// The fleet of two-regions.yaml sends its engines the names, paths and credentials that its comments describe.
func TestTwoRegionsRun(t *testing.T) {
	e := &engines{}
	key := testkit.KeyFile(t)
	store := []string{"COLONNADE_ETCD=http://" + etcdtest.Start(t).Address}
	documents := e.documents(t)
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	apply := func(documents string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
			t.Fatal(err)
		}
		endWell(t, start(t, store, "colonnade", "config", "apply", file).Wait())
	}
	apply(documents)
	for _, colo := range []string{"ams", "fra", "nyc"} {
		start(t, append(store, "COLONNADE_CREDENTIAL_VLLM=engine-secret"), "colo", "-colo", colo, "-node", colo+"-1", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-key-file", key)
	}
	entry := etcdtest.FreeAddress(t)
	start(t, store, "entry", "-open", "-node", "edge-1", "-listen", entry, "-admin", "127.0.0.1:0", "-key-file", key)

	// ask asks until the answer comes from where it should: servers and documents arrive one after the other.
	ask := func(path, body, colo string) answer {
		t.Helper()
		var got answer
		testkit.WaitFor(t, fmt.Sprintf("%s from %s to %s", path, colo, body), func() bool {
			got = post(entry, path, body)
			return regexp.MustCompile("^(" + colo + ")$").MatchString(got.colo)
		})
		return got
	}
	const chat = `{"model":"default","messages":[{"role":"user","content":"hello"}]}`
	if got := ask("/v1/chat/completions", chat, "ams|fra"); got.status != 200 || !strings.Contains(got.body, `"hi"`) {
		t.Errorf("chat: %d %s", got.status, got.body)
	}
	if got := ask("/v1/embeddings", `{"model":"bge-m3","input":"hello"}`, "nyc"); got.status != 200 || !strings.Contains(got.body, `0.5`) {
		t.Errorf("embeddings: %d %s", got.status, got.body)
	}
	if got := ask("/v1/rerank", `{"model":"bge-reranker-v2-m3","query":"q","texts":["a"]}`, "ams"); got.status != 200 || got.body != `[{"index":0,"score":0.9}]` {
		t.Errorf("rerank: %d %s", got.status, got.body)
	}
	if got := post(entry, "/v1/rerank", `{"model":"bge-reranker-v2-m3","query":"q","documents":["a"],"top_n":1}`); got.status != 422 || !strings.Contains(got.body, `"error":{`) {
		t.Errorf("rerank in the form of Jina and Cohere: %d %s", got.status, got.body)
	}
	// With no slot left on any vLLM, Ollama serves, under its own name for the model.
	withoutVLLM := strings.NewReplacer("concurrency: 32\n", "concurrency: 0\n", "concurrency: 16 ", "concurrency: 0 ").Replace(documents)
	apply(withoutVLLM)
	const byOllama = `nyc/mac-1 POST /v1/chat/completions  .*"model":"llama3.1:8b".*`
	testkit.WaitFor(t, "the change to be in force in nyc", func() bool {
		ask("/v1/chat/completions", chat, "nyc")
		return e.asked(byOllama)
	})
	if got := ask("/v1/chat/completions", chat, "nyc"); got.status != 200 {
		t.Errorf("chat by Ollama: %d %s", got.status, got.body)
	}
	for _, want := range []string{
		`(ams/gpu-[12]|fra/gpu-1) POST /v1/chat/completions Bearer engine-secret .*"model":"meta-llama/Llama-3.1-8B-Instruct".*`,
		`ams/gpu-1 GET /health Bearer engine-secret `,
		`nyc/mac-1 GET /api/version  `,
		`nyc/tei-1 POST /v1/embeddings  .*`,
		`ams/tei-2 POST /rerank  \{"model":"BAAI/bge-reranker-v2-m3","query":"q","texts":\["a"\]\}`,
	} {
		testkit.WaitFor(t, "an engine to see "+want, func() bool { return e.asked(want) })
	}
}
