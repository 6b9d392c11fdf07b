package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/fleet/document"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/openai"
	"colonnade/reasons"
)

// Each kind of engine is recognised by its own pages, and says what it says there.
func TestAskReadsThePagesOfEachEngine(t *testing.T) {
	t.Parallel()
	f := func(file, want string) {
		t.Helper()
		if got := summary(ask(t, serveFile(t, file))); got != want {
			t.Errorf("%s:\n got %s\nwant %s", file, got, want)
		}
	}
	f("vllm", `vllm "0.11.0" slots=0 notes=1 [meta-llama/Llama-3.1-8B-Instruct chat len=32768; `+
		`llama chat len=32768 base=meta-llama/Llama-3.1-8B-Instruct; sql-lora chat base=meta-llama/Llama-3.1-8B-Instruct]`)
	f("vllm-dev", `vllm "0.14.1" slots=256 notes=1 [Qwen3-Embedding-8B embedding upstream="/data/models/Qwen3-Embedding-8B" len=40960]`)
	f("vllm-old", `vllm "0.6.6" slots=0 notes=1 [BAAI/bge-m3 embedding len=8192 noted]`)
	f("sglang", `sglang "0.5.3" slots=256 notes=0 [qwen/qwen2.5-0.5b-instruct chat len=32768]`)
	f("sglang-old", `sglang "0.4.5" slots=64 notes=0 [Alibaba-NLP/gte-Qwen2-1.5B-instruct embedding len=32768]`)
	f("tgi", `tgi "3.3.6" slots=0 notes=0 [HuggingFaceH4/zephyr-7b-beta chat len=4096]`)
	f("tgi-old", `tgi "1.4.5" slots=32 notes=0 [falcon-7b chat upstream="/data/falcon-7b" len=2048]`)
	f("tei", `tei "1.8.2" slots=0 notes=0 [BAAI/bge-large-en-v1.5 embedding len=512]`)
	f("tei-rerank", `tei "1.9.0" slots=0 notes=0 [bge-reranker-large rerank len=512 noted]`)
	f("llamacpp", `llamacpp "b6765-466c1911" slots=4 notes=0 `+
		`[Meta-Llama-3.1-8B-Instruct-Q4_K_M chat upstream="../models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf" len=16384 noted]`)
	f("llamacpp-router", `llamacpp "b7300-1a2b3c4d" slots=0 notes=1 [ggml-org/gemma-3-4b-it-GGUF:Q4_K_M chat noted; nomic-embed-text-v1.5 embedding noted]`)
	f("ollama", `ollama "0.12.6" slots=0 notes=0 [alice/tuned:7b chat; llama3.2:latest chat; nomic-embed-text:latest embedding]`)
	f("ollama-old", `ollama "0.3.0" slots=0 notes=0 [mxbai-embed-large:latest embedding noted]`)
	f("ollama-empty", `ollama "0.12.6" slots=0 notes=1 []`)
	f("triton", `triton "" slots=0 notes=0 [llama-3.1-8b-instruct chat noted]`)
	f("openai", `openai "" slots=0 notes=2 [mistral-small chat noted; bge-reranker-v2 rerank noted]`)
}

// An engine that is asked again and has the same models is not asked again which API they answer.
func TestAskAgain(t *testing.T) {
	t.Parallel()
	f := func(c simengine.Config, page string) {
		t.Helper()
		e := simengine.New(c)
		t.Cleanup(e.Close)
		var asked atomic.Int32
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method+" "+r.URL.Path == page {
				asked.Add(1)
			}
			e.ServeHTTP(w, r)
		})
		first := ask(t, url)
		again, err := askAgain(t.Context(), url, first)
		if err != nil || !reflect.DeepEqual(first, again) {
			t.Errorf("%s: got %+v, error %v, want %+v", c.Kind, again, err, first)
		}
		other := *first
		other.Version = "0"
		if again, err = askAgain(t.Context(), url, &other); err != nil || !reflect.DeepEqual(first, again) {
			t.Errorf("%s: got %+v, error %v, want %+v", c.Kind, again, err, first)
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("%s: %s was asked for %d times, want 2: at first, and for another version", c.Kind, page, n)
		}
	}
	f(simengine.Config{Kind: "vllm", Models: []string{"m"}, Type: "embedding"}, "GET /v1/embeddings")
	f(simengine.Config{Kind: "ollama", Models: []string{"an-embed"}}, "POST /api/show")
}

// An engine that fails to answer the page by which it was recognised has not become another engine, whose limit would be another one.
func TestAskAgainWhileAPageFails(t *testing.T) {
	t.Parallel()
	f := func(kind, page string, status int) {
		t.Helper()
		e := simengine.New(simengine.Config{Kind: kind, Models: []string{"m"}})
		t.Cleanup(e.Close)
		var failing atomic.Bool
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if failing.Load() && r.URL.Path == page {
				http.Error(w, "overloaded", status)
				return
			}
			e.ServeHTTP(w, r)
		})
		first := ask(t, url)
		if first.Kind != kind {
			t.Fatalf("%s is taken for %s", kind, first.Kind)
		}
		failing.Store(true)
		unusable := (*NotEngineError)(nil)
		if again, err := askAgain(t.Context(), url, first); err == nil || errors.As(err, &unusable) {
			t.Errorf("%s that answers %s with %d: got %+v, error %v; want that it is not up", kind, page, status, again, err)
		}
	}
	f("tgi", "/info", http.StatusServiceUnavailable)
	f("tei", "/info", http.StatusTooManyRequests)
	f("ollama", "/api/version", http.StatusInternalServerError)
	f("ollama", "/api/tags", http.StatusBadGateway)
}

// An entry answers Ollama's clients, and is no Ollama to who looks for engines.
func TestAskAnEntry(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"/api/version": string(openai.AppendOllamaVersion(nil)),
		"/api/tags":    string(openai.AppendModelList(nil, []openai.ModelInfo{{ID: "m"}}, openai.DialectOllama)),
		"/v1/models":   string(openai.AppendModelList(nil, []openai.ModelInfo{{ID: "m", OwnedBy: "colonnade"}}, openai.DialectOpenAI)),
	}
	found := ask(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if pages[r.URL.Path] == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, pages[r.URL.Path])
	}))
	if found.Kind != "openai" || len(found.Models) != 1 || found.Models[0].Upstream != "m" {
		t.Errorf("found %+v", found)
	}
}

// The simulated engine answers questions about itself, and health checks, as the kind that it plays.
func TestAskRecognisesSimulatedEngines(t *testing.T) {
	t.Parallel()
	f := func(c simengine.Config, want string) {
		t.Helper()
		e := simengine.New(c)
		s := httptest.NewServer(e)
		t.Cleanup(e.Close)
		t.Cleanup(s.Close)
		found := ask(t, s.URL)
		if got := summary(found); got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.Kind, got, want)
		}
		set := document.NewSet()
		for _, d := range checkDocuments(t, []*Engine{found}) {
			_ = set.Put(d.Key, d.Value, 0)
		}
		for _, endpoint := range set.Table().EndpointsOf("local") {
			response, err := s.Client().Get(endpoint.URL + endpoint.Health.Path)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s: the health check %s is answered %d", c.Kind, endpoint.Health.Path, response.StatusCode)
			}
		}
	}
	models := []string{"m"}
	f(simengine.Config{Models: models}, `openai "" slots=0 notes=1 [m chat noted]`)
	f(simengine.Config{Models: models, Kind: "openai"}, `openai "" slots=0 notes=1 [m chat noted]`)
	f(simengine.Config{Models: models, Kind: "vllm", Slots: 7}, `vllm "0.11.0" slots=0 notes=1 [m chat len=8192]`)
	f(simengine.Config{Models: models, Kind: "vllm", Slots: 7, Dev: true}, `vllm "0.11.0" slots=7 notes=0 [m chat len=8192]`)
	f(simengine.Config{Models: models, Kind: "vllm", Type: "embedding"}, `vllm "0.11.0" slots=0 notes=1 [m embedding len=8192]`)
	f(simengine.Config{Models: models, Kind: "vllm", Type: "rerank"}, `vllm "0.11.0" slots=0 notes=1 [m rerank len=8192]`)
	f(simengine.Config{Models: models, Kind: "sglang", Slots: 7, MaxModelLen: 99}, `sglang "0.5.3" slots=7 notes=0 [m chat len=99]`)
	f(simengine.Config{Models: models, Kind: "tgi"}, `tgi "3.3.6" slots=0 notes=0 [m chat len=8192]`)
	f(simengine.Config{Models: models, Kind: "tei", Type: "rerank"}, `tei "1.8.2" slots=0 notes=0 [m rerank len=8192 noted]`)
	f(simengine.Config{Models: models, Kind: "tei"}, `tei "1.8.2" slots=0 notes=0 [m embedding len=8192]`)
	f(simengine.Config{Models: models, Kind: "llamacpp", Slots: 7}, `llamacpp "b6765-466c1911" slots=7 notes=0 [m chat len=8192 noted]`)
	f(simengine.Config{Models: []string{"b", "a-embed"}, Kind: "ollama"}, `ollama "0.12.6" slots=0 notes=0 [a-embed embedding; b chat]`)
	f(simengine.Config{Models: models, Kind: "triton"}, `triton "" slots=0 notes=0 [m chat noted]`)
}

// The error for a URL that is no engine says what answered, and what to do.
func TestAskSaysWhatAnsweredInsteadOfAnEngine(t *testing.T) {
	t.Parallel()
	f := func(url string, want ...string) {
		t.Helper()
		_, err := Ask(t.Context(), url)
		unusable := (*NotEngineError)(nil)
		if !errors.As(err, &unusable) {
			t.Errorf("got %v, want a *NotEngineError", err)
			return
		}
		for _, part := range append(want, url) {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got %q, want it to contain %q", err, part)
			}
		}
		if strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("the error has control characters: %q", err)
		}
	}
	status := func(code int, body string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://login.example/")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		})
	}
	f(status(404, "<html>\n\x1b[2Jnginx</html>"), "GET /v1/models answers 404 Not Found", "nginx", "give the URL of a vLLM")
	f(status(200, "<html>welcome</html>"), "answers 200 OK", "welcome", "give the URL of a vLLM")
	f(status(200, `{"hello": "world"}`), "answers 200 OK", "world")
	f(status(200, `[]`), "answers 200 OK")
	f(status(302, ""), "answers 302 Found")
	f(status(401, `{"error":"Unauthorized"}`), "answers 401 Unauthorized", "API key", "credential")
	f(status(403, ""), "answers 403 Forbidden", "API key")
	f(serveFile(t, "triton-kserve"), "KServe API of Triton 2.61.0", "openai_frontend")
	f("http://"+testkit.Serve(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
		_, _ = io.Copy(io.Discard, c) // or the reset of a connection with unread bytes could overtake it
	}), "does not speak HTTP")
	f(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, `{"object":"list","data":[`)
		for blank := strings.Repeat(" ", 64<<10); err == nil; { // without an end
			_, err = io.WriteString(w, blank)
		}
	}), "has more than 4 MiB")

	f(serve(t, func(w http.ResponseWriter, r *http.Request) { // llama.cpp with --api-key
		if r.URL.Path != "/v1/models" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","owned_by":"llamacpp"}]}`)
	}), "GET /props answers 401", "API key")

	f(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Colonnade-Reason", reasons.Starting)
		w.WriteHeader(http.StatusServiceUnavailable)
	}), "it is Colonnade, this process or another", "not that of -listen")

	plain := status(200, "")
	f("https"+strings.TrimPrefix(plain, "http"), "without TLS", "http://")
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	f(secure.URL, "certificate is not valid")
}

// Engines that are not up yet are not taken for something else.
func TestAskOfAnEngineThatIsNotUp(t *testing.T) {
	t.Parallel()
	f := func(url, want string) {
		t.Helper()
		_, err := Ask(t.Context(), url)
		unusable := (*NotEngineError)(nil)
		if err == nil || errors.As(err, &unusable) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error that says %q and is no *NotEngineError", err, want)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	f("http://"+ln.Addr().String(), ln.Addr().String()+": connection refused")
	f("http://"+testkit.Serve(t, func(net.Conn) {}), "closes the connection")
	f(serveFile(t, "llamacpp-loading"), "Loading model")
	for _, code := range []int{429, 500, 502, 503, 504} {
		f(serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }), fmt.Sprint(code))
	}
	silent := testkit.Serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ask(ctx, "http://"+silent); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// Answers are untrusted: no answer makes documents that are not valid.
func TestAskBelievesNoAnswerBeyondItsBounds(t *testing.T) {
	t.Parallel()
	f := func(list, want string) {
		t.Helper()
		e := ask(t, servePage(t, "/v1/models", list))
		if got := summary(e); got != want {
			t.Errorf("%.80s:\n got %.300s\nwant %s", list, got, want)
		}
		checkDocuments(t, []*Engine{e})
	}
	f(`{"data":[{"id":"a","max_model_len":"many","owned_by":7},{"id":8},{"id":"b"}]}`, `openai "" slots=0 notes=2 [a chat noted; b chat noted]`)
	f(`{"data":[{"id":"a","owned_by":"openai"},{"id":"b","owned_by":"vllm"}]}`, `openai "" slots=0 notes=1 [a chat noted; b chat noted]`)
	f(`{"data":[{"id":"a\nurl: http://evil"},{"id":"- b"},{"id":"c"},{"id":"c"}]}`, `openai "" slots=0 notes=3 [c chat noted]`)
	f(`{"data":[{"id":"no"},{"id":"1e3"},{"id":"2026-01-01"},{"id":"a:"},{"id":"x/default"}]}`,
		`openai "" slots=0 notes=2 [no chat noted; 1e3 chat noted; 2026-01-01 chat noted; x/default chat noted]`)
	f(`{"data":[{"id":"/x/m.gguf"},{"id":"/y/m.gguf"},{"id":"C:\\models\\n.gguf"},{"id":"o.gguf"}]}`,
		`openai "" slots=0 notes=2 [m chat upstream="/x/m.gguf" noted; n chat upstream="C:\\models\\n.gguf" noted; o chat upstream="o.gguf" noted]`)
	f(`{"data":[{"id":"a","parent":"a","root":"a"},{"id":"b","root":"a"}]}`, `openai "" slots=0 notes=1 [a chat noted; b chat base=a noted]`)

	for _, directory := range []string{"", "/" + strings.Repeat("x", 900) + "/"} {
		var many []string
		for i := range maxModels + 100 {
			many = append(many, fmt.Sprintf(`{"id":"%s%d"}`, directory, i))
		}
		e := ask(t, servePage(t, "/v1/models", `{"data":[`+strings.Join(many, ",")+`]}`))
		if len(e.Models) == 0 || len(e.Models) > maxModels || len(e.Notes) > maxNotes {
			t.Errorf("%d models, %d notes", len(e.Models), len(e.Notes))
		}
		if _, err := Documents("local", []*Engine{e}); err != nil {
			t.Error(err)
		}
	}
}
