package paths_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/internal/wiretest"
)

// engineType is a kind of engine with models of one type.
type engineType struct{ kind, models string }

func (e engineType) String() string { return e.kind + "-" + e.models }

// pathCase is one path of one kind of engine, with a request of three words and its bill.
type pathCase struct {
	engine  engineType
	path    string
	body    string // but for the model
	plain   string // more of the body for an answer that is not streamed
	stream  string // more of the body for one that is
	has     string // in the plain answer; empty if there is none
	end     string // in the last event of a stream; empty if there is none
	refusal refusal
	bill    bill // of the plain answer
	streams bill // of the stream, if it is another one
}

func (c pathCase) String() string { return c.engine.String() + c.path }

// bill is the usage in an event.
type bill struct{ prompt, completion, cached int }

func billOf(e analytics.Event) bill { return bill{e.PromptTokens, e.CompletionTokens, e.CachedTokens} }

// refusal is the shape of an error: what begins it, and what begins one in a stream.
type refusal struct {
	begins, event string
	titled        bool // the first letter of its type is large
}

// is reports whether a body has the shape, whatever the order of its members.
func (r refusal) is(body string) bool {
	var o struct {
		Type  string          `json:"type"`
		Kind  string          `json:"error_type"`
		Error json.RawMessage `json:"error"`
	}
	var says struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	var text string
	if json.Unmarshal([]byte(body), &o) != nil {
		return false
	}
	isText, isObject := json.Unmarshal(o.Error, &text) == nil, json.Unmarshal(o.Error, &says) == nil
	switch r {
	case anthropicError:
		return isObject && o.Type == "error" && says.Type != "" && says.Message != ""
	case ollamaError:
		return isText && text != ""
	case tgiError, teiError:
		return isText && text != "" && o.Kind != "" && r.titled == (o.Kind[0] < 'a')
	}
	return isObject && o.Type == "" && says.Message != ""
}

// The shapes of errors, by API.
var (
	openAIError    = refusal{begins: `{"error":{"message":"`, event: `data: {"error":{"message":"`}
	anthropicError = refusal{begins: `{"type":"error","error":{"type":"`, event: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\""}
	ollamaError    = refusal{begins: `{"error":"`, event: `{"error":"`}
	tgiError       = refusal{begins: `{"error":"`, event: `data: {"error":"`}
	teiError       = refusal{begins: `{"error":"`, titled: true}
)

const (
	saidWords   = 6
	promptWords = 3
	cachedWords = 1
	askThree    = `,"messages":[{"role":"user","content":"one two three"}]`
)

// cases returns all paths beyond those of OpenAI that take a slot, with each kind of engine that has them: see TestEveryPathHasACase.
func cases() []pathCase {
	chat := func(kind string) engineType { return engineType{kind, "chat"} }
	ranks := engineType{"vllm", "rerank"}
	vectors := engineType{"vllm", "embedding"}
	said := bill{promptWords, saidWords, 0}
	cached := bill{promptWords, saidWords, cachedWords}
	read := bill{promptWords, 0, 0}
	readCached := bill{promptWords, 0, cachedWords}
	lines := func(path, body string) pathCase {
		return pathCase{engine: chat("ollama"), path: path, body: body, plain: `,"stream":false`, has: `"done":true`, end: `"done":true`, refusal: ollamaError, bill: said}
	}
	all := []pathCase{
		{engine: chat("llamacpp"), path: "/infill", body: `,"input_prefix":"one","input_suffix":"two","prompt":"three"`, stream: `,"stream":true`,
			has: `"stop":true`, end: `"stop":true`, refusal: openAIError, bill: cached},
		{engine: chat("llamacpp"), path: "/completion", body: `,"prompt":"one two three"`, stream: `,"stream":true`,
			has: `"stop":true`, end: `"stop":true`, refusal: openAIError, bill: cached},
		{engine: chat("llamacpp"), path: "/completions", body: `,"prompt":["one two three"]`, stream: `,"stream":true`,
			has: `"stop":true`, end: `"stop":true`, refusal: openAIError, bill: cached},
		lines("/api/chat", askThree),
		lines("/api/generate", `,"prompt":"one two three"`),
		{engine: chat("ollama"), path: "/api/embed", body: `,"input":["one two","three"]`, has: `"embeddings":[[`, refusal: ollamaError, bill: read},
		{engine: chat("ollama"), path: "/api/embeddings", body: `,"prompt":"one two three"`, has: `"embedding":[`, refusal: ollamaError},
		{engine: chat("tgi"), path: "/generate", body: `,"inputs":"one two three"`, has: `"generated_text":"`, refusal: tgiError, bill: said},
		{engine: chat("tgi"), path: "/generate_stream", body: `,"inputs":"one two three","parameters":{"details":true}`, stream: " ",
			end: `"generated_text":"`, refusal: tgiError, streams: said},
		{engine: ranks, path: "/v1/score", body: `,"text_1":"one","text_2":["two","three"]`, has: `"score":0.5}`, refusal: openAIError, bill: readCached},
		{engine: ranks, path: "/score", body: `,"text_1":"one","text_2":["two","three"]`, has: `"score":0.5}`, refusal: openAIError, bill: readCached},
		{engine: ranks, path: "/v1/rerank", body: `,"query":"one two three","documents":["a","b"]`, has: `"relevance_score":0.5`, refusal: openAIError, bill: read},
		{engine: ranks, path: "/v2/rerank", body: `,"query":"one two three","documents":["a","b"]`, has: `"relevance_score":0.5`, refusal: openAIError, bill: read},
		{engine: ranks, path: "/rerank", body: `,"query":"one two three","documents":["a","b"]`, has: `"relevance_score":0.5`, refusal: openAIError, bill: read},
		{engine: ranks, path: "/classify", body: `,"input":["one two","three"]`, has: `"num_classes":2`, refusal: openAIError, bill: readCached},
		{engine: vectors, path: "/pooling", body: `,"input":["one two","three"]`, has: `"object":"pooling"`, refusal: openAIError, bill: readCached},
		{engine: engineType{"tei", "embedding"}, path: "/embed", body: `,"inputs":["one two","three"]`, has: `],[`, refusal: teiError, bill: read},
		{engine: engineType{"tei", "rerank"}, path: "/predict", body: `,"inputs":["one two","three"]`, has: `"label":"LABEL_1"`, refusal: teiError, bill: read},
		{engine: engineType{"tei", "rerank"}, path: "/rerank", body: `,"query":"one","texts":["two","three"]`, has: `"score":0.5}`, refusal: teiError, bill: read},
		{engine: chat("sglang"), path: "/v1/score", body: `,"query":"one","items":["two","three"]`, has: `"scores":[[`, refusal: openAIError, bill: readCached},
		{engine: chat("openai"), path: "/v1/score", body: `,"text_1":"one","text_2":["two","three"]`, has: `"score":0.5}`, refusal: openAIError, bill: readCached},
		{engine: chat("openai"), path: "/score", body: `,"text_1":"one","text_2":["two","three"]`, has: `"score":0.5}`, refusal: openAIError, bill: readCached},
		{engine: chat("sglang"), path: "/v1/classify", body: `,"input":["one two","three"]`, has: `"num_classes":2`, refusal: openAIError, bill: readCached},
		{engine: chat("sglang"), path: "/classify", body: `,"input":["one two","three"]`, has: `"num_classes":2`, refusal: openAIError, bill: readCached},
		{engine: chat("llamacpp"), path: "/rerank", body: `,"query":"one two three","documents":["a","b"]`, has: `"relevance_score":0.5`, refusal: openAIError, bill: read},
		{engine: chat("llamacpp"), path: "/v1/reranking", body: `,"query":"one two three","documents":["a","b"]`, has: `"relevance_score":0.5`, refusal: openAIError, bill: read},
		{engine: chat("llamacpp"), path: "/reranking", body: `,"query":"one two three","documents":["a","b"]`, has: `"relevance_score":0.5`, refusal: openAIError, bill: read},
		{engine: chat("llamacpp"), path: "/v1/rerank", body: `,"query":"one two three","documents":["a","b"]`, has: `"relevance_score":0.5`, refusal: openAIError, bill: read},
	}
	for _, kind := range []string{"vllm", "sglang", "llamacpp", "ollama"} {
		c := pathCase{engine: chat(kind), path: "/v1/messages", body: askThree + `,"max_tokens":64`, stream: `,"stream":true`, has: `"stop_reason":"end_turn"`,
			end: `{"type":"message_stop"}`, refusal: anthropicError, bill: said}
		if kind != "ollama" {
			c.bill = cached
		}
		all = append(all, c)
	}
	return all
}

// request returns the body for an answer that is streamed or not.
func (c pathCase) request(stream bool) string {
	more := c.plain
	if stream {
		more = c.stream
	}
	return fmt.Sprintf(`{"model":"%s"%s%s}`, c.engine, c.body, more)
}

// each runs a test for each case, streamed or not, as far as there is such an answer.
func each(t *testing.T, run func(t *testing.T, c pathCase, stream bool)) {
	for _, c := range cases() {
		if c.has != "" {
			t.Run(c.String(), func(t *testing.T) { run(t, c, false) })
		}
		if c.end != "" {
			t.Run(c.String()+" streamed", func(t *testing.T) { run(t, c, true) })
		}
	}
}

// site is a fleet with an engine of each type.
type site struct {
	*fleettest.Fleet
	engines  map[engineType]*simengine.Engine
	accounts []string // the credentials of some
}

// start runs a fleet with engines of one slot, unless c says otherwise.
func start(t *testing.T, c simengine.Config) *site {
	t.Helper()
	return startFor(t, c, 1)
}

// startFor is start for so many requests at once.
func startFor(t *testing.T, c simengine.Config, requests int) *site {
	t.Helper()
	s := &site{engines: map[engineType]*simengine.Engine{}}
	var documents strings.Builder
	for _, tc := range cases() {
		if s.engines[tc.engine] != nil {
			continue
		}
		c.Kind, c.Type, c.Slots, c.Tokens, c.Cached = tc.engine.kind, tc.engine.models, cmp.Or(c.Slots, 1), cmp.Or(c.Tokens, saidWords), cachedWords
		c.TTFT, c.Record = time.Millisecond, 1
		e, docs := fleettest.StartKind(t, tc.engine.String(), c, "")
		s.engines[tc.engine] = e
		documents.WriteString(docs)
	}
	for n := range 8 {
		docs, key := fleettest.AccountWithKey(fmt.Sprintf("account-%d", n), "")
		documents.WriteString(docs)
		s.accounts = append(s.accounts, key)
	}
	s.Fleet = fleettest.Start(t, fleettest.OneColo(fleettest.QuickEngine(1)), documents.String())
	s.WatchShared(2*len(s.engines) + 2*requests)
	t.Cleanup(func() { // before the fleet ends
		for of, e := range s.engines {
			testkit.WaitFor(t, of.String()+" to be idle", func() bool { return fleettest.InFlight(e) == 0 && s.Pool("ams", of.String()).Held == 0 })
		}
	})
	return s
}

// send sends a request of a case over a connection of its own.
func (s *site) send(t *testing.T, c pathCase, stream bool, id string, lines ...string) *wiretest.Conn {
	t.Helper()
	conn := wiretest.Dial(t, s.Entry.Address)
	conn.Post(c.path, c.request(stream), append(slices.Clone(lines), "x-request-id: "+id)...)
	return conn
}

// idOf returns the x-request-id of a test of a case.
func idOf(c pathCase, stream bool) string {
	return fmt.Sprintf("%s%s-%v", c.engine, strings.ReplaceAll(c.path, "/", "-"), stream)
}

// rested waits until the engine of a case and its pool hold nothing.
func (s *site) rested(t *testing.T, c pathCase) {
	t.Helper()
	testkit.WaitFor(t, "the engine to be idle and the permit to be free", func() bool {
		return fleettest.InFlight(s.engines[c.engine]) == 0 && s.Pool("ams", c.engine.String()).Held == 0
	})
}
