package simengine_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"colonnade/internal/simengine"
)

// dialect is one path of one kind of engine.
type dialect struct {
	config simengine.Config
	path   string
	body   string // without the closing brace
	plain  string // what is added for an answer that is not streamed
	stream string // what is added for one that is; empty if there is none
	has    string // in the plain answer
	end    string // of the stream
	failed string // begins an error, {} stands for its message
	status int    // of an error 503
}

const (
	askThree   = `"messages":[{"role":"user","content":"one two three"}],"max_tokens":5`
	openAIForm = `{"error":{"message":"{}"`
	llamaForm  = `{"error":{"code":`
	routerForm = `{"error":"{}","error_type":`
)

// dialects are the paths beyond OpenAI's own, with the answers to a prompt of three words.
func dialects() []dialect {
	kind := func(name string) simengine.Config {
		c := fast()
		c.Kind, c.Models, c.Tokens = name, []string{"m"}, 6
		return c
	}
	typed := func(name, of string) simengine.Config {
		c := kind(name)
		c.Type = of
		return c
	}
	messagesEnd := "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	all := []dialect{
		{config: kind("sglang"), path: "/generate", body: `{"text":"one two three"`, stream: `,"stream":true`, has: `"prompt_tokens":3`, end: "[DONE]\n\n", failed: openAIForm, status: 503},
		{config: kind("llamacpp"), path: "/infill", body: `{"input_prefix":"one","input_suffix":"two","prompt":"three"`, stream: `,"stream":true`,
			has: `"tokens_evaluated":3,`, end: `"truncated":false}` + "\n\n", failed: llamaForm, status: 503},
		{config: kind("llamacpp"), path: "/completion", body: `{"prompt":"one two three"`, stream: `,"stream":true`,
			has: `"tokens_evaluated":3,`, end: `"truncated":false}` + "\n\n", failed: llamaForm, status: 503},
		{config: kind("llamacpp"), path: "/completions", body: `{"prompt":"one two three"`, stream: `,"stream":true`,
			has: `"tokens_evaluated":3,`, end: `"truncated":false}` + "\n\n", failed: llamaForm, status: 503},
		{config: kind("ollama"), path: "/api/chat", body: `{"model":"m",` + strings.ReplaceAll(askThree, `"max_tokens":5`, `"options":{"num_predict":5}`), plain: `,"stream":false`, stream: ` `,
			has: `"prompt_eval_count":3`, end: "}\n", failed: `{"error":"{}"}`, status: 503},
		{config: kind("ollama"), path: "/api/generate", body: `{"model":"m","prompt":"one two three"`, plain: `,"stream":false`, stream: ` `,
			has: `"prompt_eval_count":3`, end: "}\n", failed: `{"error":"{}"}`, status: 503},
		{config: kind("ollama"), path: "/api/embed", body: `{"model":"m","input":["one two","three"]`, has: `"prompt_eval_count":3`, failed: `{"error":"{}"}`, status: 503},
		{config: kind("ollama"), path: "/api/embeddings", body: `{"model":"m","prompt":"one"`, has: `{"embedding":[`, failed: `{"error":"{}"}`, status: 503},
		{config: kind("tgi"), path: "/generate", body: `{"inputs":"one two three","parameters":{"details":true}`, has: `"generated_tokens":6`, failed: routerForm, status: 429},
		{config: kind("tgi"), path: "/generate_stream", body: `{"inputs":"one two three","parameters":{"details":true}`, stream: ` `,
			end: "}\n\n", failed: routerForm, status: 429},
		{config: kind("tgi"), path: "/", body: `{"inputs":"one"`, stream: `,"stream":true`, has: `[{"generated_text":"`, end: "}\n\n", failed: routerForm, status: 429},
		{config: typed("tei", "embedding"), path: "/embed", body: `{"inputs":["one","two"]`, has: `[[`, failed: routerForm, status: 429},
		{config: typed("tei", "embedding"), path: "/v1/embeddings", body: `{"input":"one"`, has: `"embedding":[`, failed: `{"code":429,"message":"{}","type":"Overloaded"}`, status: 429},
		{config: typed("tei", "rerank"), path: "/rerank", body: `{"query":"one","texts":["two","three"]`, has: `[{"index":0,"score":1},{"index":1,"score":0.5}]`, failed: routerForm, status: 429},
		{config: typed("tei", "rerank"), path: "/predict", body: `{"inputs":"one"`, has: `"label":"LABEL_0"`, failed: routerForm, status: 429},
		{config: typed("vllm", "rerank"), path: "/v1/score", body: `{"model":"m","text_1":"one","text_2":["two","three"]`, has: `"score":0.5}`, failed: openAIForm, status: 503},
		{config: typed("vllm", "rerank"), path: "/v2/rerank", body: `{"model":"m","query":"one","documents":["two","three"]`, has: `"relevance_score":0.5}`, failed: openAIForm, status: 503},
		{config: typed("vllm", "rerank"), path: "/classify", body: `{"model":"m","input":["one two","three"]`, has: `"prompt_tokens":3`, failed: openAIForm, status: 503},
		{config: typed("vllm", "embedding"), path: "/pooling", body: `{"model":"m","input":["one two","three"]`, has: `"object":"pooling"`, failed: openAIForm, status: 503},
		{config: kind("llamacpp"), path: "/v1/rerank", body: `{"query":"one","documents":["two","three"]`, has: `"relevance_score":0.5}`, failed: llamaForm, status: 503},
		{config: kind("sglang"), path: "/v1/rerank", body: `{"query":"one","documents":["two","three"]`, has: `"document":"three","index":1`, failed: `{"code":503,"message":"{}"`, status: 503},
		{config: kind("sglang"), path: "/v1/score", body: `{"query":"one","items":["two","three"]`, has: `"scores":[[`, failed: `{"code":503,"message":"{}"`, status: 503},
	}
	for _, name := range []string{"vllm", "sglang", "llamacpp", "ollama"} {
		d := dialect{config: kind(name), path: "/v1/messages", body: `{"model":"m",` + askThree, stream: `,"stream":true`,
			has: `"stop_reason":"max_tokens"`, end: messagesEnd, failed: `{"error":{"message":"{}","type":`, status: 503}
		if name == "llamacpp" {
			d.failed = llamaForm
		}
		all = append(all, d)
	}
	return all
}

func (d dialect) String() string { return d.config.Kind + " " + d.path }

// ask sends the request of a dialect, streamed or not, under a fault if one is given.
func (d dialect) ask(t *testing.T, fault string, stream bool) (*simengine.Engine, *http.Response, string, error) {
	t.Helper()
	e, addr := start(t, d.config)
	if fault != "" {
		e.SetFault(simengine.Fault{Fault: fault})
	}
	more := d.plain
	if stream {
		more = d.stream
	}
	resp := post(t, addr, d.path, d.body+more+"}")
	got, err := io.ReadAll(resp.Body)
	return e, resp, string(got), err
}

// fails reports whether an answer is an error in the form of its dialect.
func (d dialect) fails(got string) bool {
	form := d.failed
	for _, message := range []string{"The engine has no room for this request.", "The engine failed on purpose."} {
		if strings.HasPrefix(got, strings.ReplaceAll(form, "{}", message)) {
			return true
		}
	}
	return strings.HasPrefix(got, `{"error":{"type":`) // with the message behind the type
}

func TestDialects(t *testing.T) {
	for _, d := range dialects() {
		t.Run(d.String(), func(t *testing.T) {
			if d.has != "" {
				e, resp, got, err := d.ask(t, "", false)
				if err != nil || resp.StatusCode != 200 || !strings.Contains(got, d.has) || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
					t.Errorf("plain: %d %s, %v; want %s", resp.StatusCode, got, err, d.has)
				}
				if st := e.Stats(); st.Served != 1 || st.Running != 0 {
					t.Errorf("plain: stats %+v", st)
				}
			}
			if d.stream != "" {
				_, resp, got, err := d.ask(t, "", true)
				if err != nil || resp.StatusCode != 200 || !strings.HasSuffix(got, d.end) || !strings.Contains(got, " takes") {
					t.Errorf("streamed: %d %s, %v; want the end %s", resp.StatusCode, got, err, d.end)
				}
				want := "text/event-stream"
				if d.config.Kind == "ollama" && d.path != "/v1/messages" {
					want = "application/x-ndjson"
				}
				if kind := resp.Header.Get("Content-Type"); kind != want {
					t.Errorf("streamed: content type %s", kind)
				}
			}
		})
	}
}

// A fault has in each dialect the meaning that it has in OpenAI's.
func TestFaultsOfDialects(t *testing.T) {
	for _, d := range dialects() {
		t.Run(d.String(), func(t *testing.T) {
			stream := d.has == ""
			if _, resp, got, _ := d.ask(t, simengine.FaultFull, stream); resp.StatusCode != d.status || !d.fails(got) {
				t.Errorf("full: %d %s", resp.StatusCode, got)
			}
			if _, _, got, err := d.ask(t, simengine.FaultCutAtChunk, stream); err == nil {
				t.Errorf("cut: came to an end after %s", got)
			}
			if d.stream == "" {
				return
			}
			for _, fault := range []string{simengine.FaultCutAtChunk, simengine.FaultCutInChunk} {
				if _, _, got, err := d.ask(t, fault, true); err == nil || strings.HasSuffix(got, d.end) && d.end != "}\n" && d.end != "}\n\n" {
					t.Errorf("%s: %v after %s", fault, err, got)
				}
			}
			if _, _, got, err := d.ask(t, simengine.FaultNoDone, true); err != nil || d.ends(got) {
				t.Errorf("no_done: %v after %s", err, got)
			}
			if _, _, got, err := d.ask(t, simengine.FaultErrorThenDone, true); err != nil || !d.saysFailure(got) {
				t.Errorf("error_then_done: %v after %s", err, got)
			}
			if e, _, got, err := d.ask(t, simengine.FaultSlow, true); err != nil || !d.ends(got) || e.Stats().Served != 1 {
				t.Errorf("slow: %v after %s", err, got)
			}
		})
	}
}

// ends reports whether a stream has its proper end.
func (d dialect) ends(got string) bool {
	for mark, paths := range map[string]string{
		`"done":true`: "/api/", "message_stop": "/v1/messages", `"stop":true`: "/infill /completion /completions", "[DONE]": "/generate", `"generated_text":"`: "/ /generate_stream",
	} {
		for path := range strings.SplitSeq(paths, " ") {
			if path == d.path || path == "/api/" && strings.HasPrefix(d.path, path) {
				return strings.Contains(got, mark)
			}
		}
	}
	return false
}

// saysFailure reports whether a stream has an error. Ollama's on Anthropic's path have none, and lack their end.
func (d dialect) saysFailure(got string) bool {
	if d.config.Kind == "ollama" && d.path == "/v1/messages" {
		return !d.ends(got)
	}
	return strings.Contains(got, `"error"`) && strings.Contains(got, "The engine failed on purpose.") &&
		(d.ends(got) == (d.config.Kind == "sglang"))
}

// Requests for tokens take no slot, and no time.
func TestTokenize(t *testing.T) {
	f := func(kind, of, path, body, back, join, has string) {
		t.Helper()
		e, addr := start(t, simengine.Config{Kind: kind, Type: of, Models: []string{"m"}, Slots: 1})
		e.SetFault(simengine.Fault{Fault: simengine.FaultStallHead, Count: 1})
		held := dial(t, addr)
		held.post("/v1/chat/completions", `{"model":"m","messages":[]}`)
		if of == "" {
			waitForStats(t, e, "its slot is held", func(st simengine.Stats) bool { return st.Running == 1 })
		} else {
			e.ClearFaults()
		}
		got := readAll(t, post(t, addr, path, body))
		if !strings.Contains(got, has) {
			t.Errorf("%s %s: %s, want %s", kind, path, got, has)
		}
		if back != "" {
			if got := readAll(t, post(t, addr, back, join)); !strings.Contains(got, `"one two one"`) {
				t.Errorf("%s %s: %s", kind, back, got)
			}
		}
	}
	f("vllm", "", "/tokenize", `{"prompt":"one two one"}`, "/detokenize", `{"tokens":[0,1,2]}`, `"count":3,"max_model_len":8192`)
	f("sglang", "", "/v1/tokenize", `{"model":"m","prompt":"one two one"}`, "/detokenize", `{"tokens":[0,1,2]}`, `"tokens":[0,1,2]`)
	f("llamacpp", "", "/tokenize", `{"content":"one two one"}`, "/detokenize", `{"tokens":[0,1,2]}`, `{"tokens":[0,1,2]}`)
	f("tgi", "", "/tokenize", `{"inputs":"one two"}`, "", "", `[{"id":0,"special":false,"start":0,"stop":3,"text":"one"},`)
	f("tei", "embedding", "/tokenize", `{"inputs":"one two one"}`, "/decode", `{"ids":[0,1,2]}`, `[[{"id":0,`)
	for _, kind := range []string{"vllm", "sglang", "llamacpp"} {
		f(kind, "", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"one two"}]}`, "", "", `{"input_tokens":2}`)
	}
}

// The kinds do not agree on where they say what.
func TestUsageOfMessages(t *testing.T) {
	f := func(kind string, stream bool, want string) {
		t.Helper()
		_, addr := start(t, simengine.Config{Kind: kind, Models: []string{"m"}, Tokens: 6, Cached: 2, TTFT: -1, ITL: -1})
		body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"one two three"}]`
		if stream {
			body += `,"stream":true`
		}
		if got := readAll(t, post(t, addr, "/v1/messages", body+"}")); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
	f("vllm", false, `"usage":{"cache_read_input_tokens":2,"input_tokens":1,"output_tokens":6}`)
	f("sglang", false, `"usage":{"cache_read_input_tokens":2,"input_tokens":1,"output_tokens":6}`)
	f("llamacpp", false, `"usage":{"cache_read_input_tokens":2,"input_tokens":1,"output_tokens":6}`)
	f("ollama", false, `"usage":{"input_tokens":3,"output_tokens":6}`)
	f("llamacpp", true, `"usage":{"output_tokens":6}`)
	f("vllm", true, `"usage":{"input_tokens":3,"output_tokens":0}`)
	f("vllm", true, `"usage":{"cache_read_input_tokens":2,"input_tokens":1,"output_tokens":6}`)
	f("sglang", true, `"usage":{"input_tokens":0,"output_tokens":0}`)
	f("ollama", true, `"usage":{"input_tokens":2,"output_tokens":0}`)
}

// An engine of a kind has no paths of others.
func TestPathsOfOthers(t *testing.T) {
	f := func(kind, path string) {
		t.Helper()
		_, addr := start(t, simengine.Config{Kind: kind, Models: []string{"m"}})
		if resp := post(t, addr, path, `{"model":"m"}`); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s %s: %d", kind, path, resp.StatusCode)
		}
	}
	f("ollama", "/v1/messages/count_tokens")
	f("ollama", "/v1/rerank")
	f("tgi", "/v1/messages")
	f("tgi", "/v1/embeddings")
	f("tei", "/v1/rerank")
	f("triton", "/v1/messages")
	f("vllm", "/api/chat")
	f("vllm", "/v1/audio/speech")
	f("openai", "/v1/messages")
	f("", "/v1/messages")
}

// Ollama's generate without a prompt loads the model, and takes no slot.
func TestOllamaLoads(t *testing.T) {
	e, addr := start(t, simengine.Config{Kind: "ollama", Models: []string{"m"}})
	if got := answerOf(t, addr, "/api/generate", `{"model":"m","keep_alive":-1}`); got["done_reason"] != "load" {
		t.Errorf("%v", got)
	}
	if st := e.Stats(); st.Requests != 0 {
		t.Errorf("stats %+v", st)
	}
}
