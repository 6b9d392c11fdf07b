package openai_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"colonnade/openai"
)

// nativeStream is a stream of an API that is not OpenAI's, as an engine sends it.
type nativeStream struct {
	name   string
	config openai.StreamConfig
	text   string
	usage  openai.Usage
	deltas int // after the last usage
	ends   int // how many bytes of text are behind the proper end: line ends, and the framing of the last event
}

const messagesHead = "event: message_start\n" +
	`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":11,"cache_read_input_tokens":5,"output_tokens":1}}}` + "\n\n" +
	"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
	"event: ping\n" + `data: {"type":"ping"}` + "\n\n"

const messagesText = "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"every "}}` + "\n\n" +
	"event: content_block_delta\n" + `data: {"delta":{"type":"text_delta","text":"request"},"index":0,"type":"content_block_delta"}` + "\n\n"

const messagesTail = "event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
	"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":7}}` + "\n\n"

const messagesStop = "event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"

const (
	ollamaLine = `{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"every"},"done":false}` + "\n"
	ollamaDone = `{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,` +
		`"total_duration":9,"prompt_eval_count":12,"eval_count":3}` + "\n"
	generateLine = `{"model":"m","response":"every","done":false}` + "\n"
	generateDone = `{"model":"m","response":"","done":true,"context":[1,2,3],"prompt_eval_count":4,"eval_count":2}` + "\n"

	tgiToken = `data:{"index":1,"token":{"id":5,"text":"every","logprob":-0.1,"special":false},"generated_text":null,"details":null}` + "\n\n"
	tgiLast  = `data:{"index":2,"token":{"id":6,"text":" request","logprob":-0.1,"special":false},"generated_text":"every request",` +
		`"details":{"finish_reason":"length","generated_tokens":2,"seed":null,"input_length":9}}` + "\n\n"

	infillPart = `data: {"index":0,"content":"every","tokens":[5],"stop":false,"id_slot":0,"tokens_predicted":1,"tokens_evaluated":8}` + "\n\n"
	infillLast = `data: {"index":0,"content":"","tokens":[],"id_slot":0,"stop":true,"model":"m","tokens_predicted":2,"tokens_evaluated":8,` +
		`"generation_settings":{"samplers":["a","b"]},"prompt":"x","stop_type":"limit","timings":{"cache_n":3,"prompt_n":5}}` + "\n\n"
)

func nativeStreams() []nativeStream {
	messages := openai.StreamConfig{API: openai.Messages, Dialect: openai.DialectAnthropic}
	lines := func(a openai.API) openai.StreamConfig {
		return openai.StreamConfig{API: a, Dialect: openai.DialectOllama, Framing: openai.JSONLines}
	}
	return []nativeStream{
		{"messages", messages, messagesHead + messagesText + messagesTail + messagesStop, openai.Usage{Prompt: 16, Completion: 7, Cached: 5}, 0, 2},
		{"ollama chat", lines(openai.OllamaChat), ollamaLine + ollamaLine + ollamaDone, openai.Usage{Prompt: 12, Completion: 3}, 0, 1},
		{"ollama generate", lines(openai.OllamaGenerate), generateLine + generateDone, openai.Usage{Prompt: 4, Completion: 2}, 0, 1},
		{"generate", openai.StreamConfig{API: openai.Generate, Dialect: openai.DialectTGI}, tgiToken + tgiToken + tgiLast, openai.Usage{Prompt: 9, Completion: 2}, 0, 2},
		{"infill", openai.StreamConfig{API: openai.Infill}, infillPart + infillPart + infillLast, openai.Usage{Prompt: 8, Completion: 2, Cached: 3}, 0, 2},
		{"completion", openai.StreamConfig{API: openai.LlamaCompletions}, infillPart + infillLast, openai.Usage{Prompt: 8, Completion: 2, Cached: 3}, 0, 2},
	}
}

// Each stream is complete at its end, with its usage, and its bytes pass unchanged, however they are cut into pieces.
func TestNativeAnswers(t *testing.T) {
	for _, n := range nativeStreams() {
		inPieces(n.text, func(pieces []string, size int) {
			s := openai.NewStream(n.config)
			got := feed(s, pieces...)
			usage, ok := s.Usage()
			if got != n.text || !s.Ended() || !s.Over() || s.Failed() || s.Trailing() || !s.NeedsEnd() || !ok || usage != n.usage || s.UnreportedDeltas() != n.deltas {
				t.Errorf("%s in pieces of %d: ended %v, over %v, failed %v, usage %+v %v, %d deltas; %q", n.name, size, s.Ended(), s.Over(), s.Failed(), usage, ok,
					s.UnreportedDeltas(), got)
			}
			if first, _ := s.First(); first != openai.DataEvent {
				t.Errorf("%s: began with %v", n.name, first)
			}
			if more := feed(s, n.text); more != "" || !s.Trailing() || !s.Over() {
				t.Errorf("%s: delivered %q behind the end", n.name, more)
			}
		})
	}
}

// A stream that is cut at any byte never looks complete, to Colonnade or to its client: what is delivered is a beginning of whole events, and an
// error in the client's own dialect can follow.
func TestNativeStreamsCut(t *testing.T) {
	for _, n := range nativeStreams() {
		for cut := range len(n.text) {
			s := openai.NewStream(n.config)
			got := feed(s, split(n.text[:cut], 50)...)
			tail := string(s.Finish())
			complete := s.Ended()
			if framing := len(n.text) - n.ends; complete != (cut >= framing) {
				t.Fatalf("%s cut at %d of %d: ended %v", n.name, cut, len(n.text), complete)
			}
			if complete {
				if got += tail; strings.TrimSpace(got) != strings.TrimSpace(n.text) {
					t.Fatalf("%s cut at %d: delivered %q", n.name, cut, got)
				}
				continue
			}
			if tail != "" || !strings.HasPrefix(n.text, got) {
				t.Fatalf("%s cut at %d: delivered %q and %q", n.name, cut, got, tail)
			}
			with := got + string(s.AppendError(nil, openai.EngineFailed("truncated"), "req"))
			again := openai.NewStream(n.config)
			if feed(again, with); !again.Failed() || again.Over() || again.LastError().Number != openai.NumberEngineFailed {
				t.Fatalf("%s cut at %d: the next node reads %q as failed %v, over %v", n.name, cut, with, again.Failed(), again.Over())
			}
		}
	}
}

// The error that ends a stream has the shape of its client's API.
func TestNativeStreamError(t *testing.T) {
	e := openai.InferenceTimeout("idle_timeout")
	f := func(c openai.StreamConfig, before, prefix, end string, read func(map[string]any) (message, kind any)) {
		t.Helper()
		s := openai.NewSmallStream(c, 64, 1<<20)
		feed(s, before)
		got := string(s.AppendError(nil, e, "req"))
		data, found := strings.CutPrefix(got, prefix)
		if data, closed := strings.CutSuffix(data, end); found && closed {
			var body map[string]any
			if err := json.Unmarshal([]byte(data), &body); err != nil {
				t.Errorf("%q: %v", data, err)
			}
			if message, kind := read(body); message != e.Message || kind == "" {
				t.Errorf("%q: message %v, type %v", data, message, kind)
			}
			return
		}
		t.Errorf("%q", got)
	}
	anthropic := func(b map[string]any) (any, any) {
		inner, _ := b["error"].(map[string]any)
		if b["type"] != "error" || b["request_id"] != "req" || inner["type"] != "timeout_error" || inner["reason"] != "idle_timeout" {
			t.Errorf("%v", b)
		}
		return inner["message"], inner["type"]
	}
	flat := func(b map[string]any) (any, any) {
		if b["reason"] != "idle_timeout" || b["request_id"] != "req" || b["number"] != 50401.0 {
			t.Errorf("%v", b)
		}
		return b["error"], b["error_type"]
	}
	long := strings.Repeat("x", 100)
	for _, n := range nativeStreams() {
		prefix, end, read := "data: ", "\n\n", flat
		switch n.config.Dialect {
		case openai.DialectAnthropic:
			prefix, read = "event: error\ndata: ", anthropic
		case openai.DialectOllama:
			prefix, end = "", "\n"
		case openai.DialectOpenAI:
			read = func(b map[string]any) (any, any) {
				inner, _ := b["error"].(map[string]any)
				return inner["message"], inner["type"]
			}
		}
		f(n.config, "", prefix, end, read)
		f(n.config, n.text[:20], prefix, end, read)
		f(n.config, long, end+prefix, end, read) // of which a part has been sent
	}
}

// Errors of engines in a stream, each in the engine's own form.
func TestNativeStreamErrors(t *testing.T) {
	f := func(a openai.API, text string, status int, code string) {
		t.Helper()
		c := openai.StreamConfig{API: a}
		if a == openai.OllamaChat {
			c.Framing = openai.JSONLines
		}
		for _, size := range []int{1, len(text)} {
			s := openai.NewStream(c)
			feed(s, split(text, size)...)
			first, err := s.First()
			if first != openai.ErrorEvent || err.Status != status || err.Code != code || !s.Failed() || s.Over() {
				t.Errorf("%q: %v, %+v, over %v", text, first, err, s.Over())
			}
		}
	}
	f(openai.Messages, "event: error\n"+`data: {"type":"error","error":{"type":"overloaded_error","message":"canary"}}`+"\n\n", 503, "overloaded_error")
	f(openai.Messages, "event: error\n"+`data: {"type":"error","error":{"type":"internal_error","message":"canary"}}`+"\n\n", 500, "internal_error")
	// llama.cpp's are flat, and SGLang ends the message behind one.
	f(openai.Messages, "event: error\n"+`data: {"code":400,"message":"canary","type":"exceed_context_size_error"}`+"\n\n", 400, "exceed_context_size_error")
	f(openai.Messages, "event: error\n"+`data: {"type":"error","error":{"type":"api_error","message":"canary"}}`+"\n\n"+messagesTail+messagesStop, 500, "api_error")
	f(openai.OllamaChat, `{"error":"canary"}`+"\n", 500, "")
	f(openai.OllamaChat, `{"error":"canary"}`+"\n"+ollamaDone, 500, "")
	f(openai.Generate, `data:{"error":"Model is overloaded","error_type":"overloaded"}`+"\n\n", 503, "overloaded")
	f(openai.Generate, `data:{"error":"Input validation error: canary","error_type":"validation"}`+"\n\n", 400, "validation")
	f(openai.Generate, `data:{"error":"Request failed during generation: canary","error_type":"generation"}`+"\n\n", 500, "generation")
	f(openai.LlamaCompletions, `data: {"error":{"code":503,"message":"canary","type":"unavailable_error"}}`+"\n\n", 503, "unavailable_error")
	f(openai.Infill, `data: {"error":{"code":500,"message":"canary","type":"server_error"}}`+"\n\n", 500, "server_error")
}

// Other events do not end a stream.
func TestNativeStreamsWithoutEnd(t *testing.T) {
	f := func(a openai.API, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if s := stream(a, text); s.Ended() {
				t.Errorf("%v ends with %q", a, text)
			}
		}
	}
	f(openai.Messages, doneEvent, "event: message_stop\n\n", "event: message_stop\ndata: {\n\n", `data: {"type":"message_delta","x":{"type":"message_stop"}}`+"\n\n")
	f(openai.Generate, doneEvent, tgiToken, `data:{"details":{"generated_text":"x"}}`+"\n\n", `data:{"generated_text":null}`+"\n\n")
	f(openai.Infill, doneEvent, infillPart, `data: {"stop":"true"}`+"\n\n", `data: {"content":"x"}`+"\n\n", `data: {"generation_settings":{"stop":true}}`+"\n\n")
	f(openai.OllamaChat, `data: {"done":false}`+"\n\n", `data: {"message":{"done":true}}`+"\n\n", `data: {"done":"true"}`+"\n\n", `data: {"done":1}`+"\n\n")
	// An engine of Messages that says [DONE] behind the end, as vLLM once did.
	if s := stream(openai.Messages, messagesStop+doneEvent); !s.Over() || !s.Trailing() {
		t.Error("the end was not seen")
	}
	// Usage comes in parts: early versions of vLLM have it beside the message.
	s := stream(openai.Messages, `data: {"type":"message_start","message":{},"usage":{"input_tokens":5,"output_tokens":0}}`+"\n\n", messagesText)
	if u, ok := s.Usage(); !ok || u != (openai.Usage{Prompt: 5}) || s.UnreportedDeltas() != 2 {
		t.Errorf("%+v %v, %d deltas", u, ok, s.UnreportedDeltas())
	}
	feed(s, `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":null,"output_tokens":9,"cache_creation_input_tokens":2}}`+"\n\n")
	if u, ok := s.Usage(); !ok || u != (openai.Usage{Prompt: 7, Completion: 9}) || s.UnreportedDeltas() != 0 {
		t.Errorf("%+v %v, %d deltas", u, ok, s.UnreportedDeltas())
	}
}

// Of several completions, each has a last event, whether they are generated at once or one after the other.
func TestLlamaCompletionsOfSeveral(t *testing.T) {
	t.Parallel()
	part := func(i int, stop string) string {
		return fmt.Sprintf(`data: {"index":%d,"content":"x"%s}`+"\n\n", i, stop)
	}
	const yes, no = `,"stop":true`, `,"stop":false`
	f := func(name string, want openai.StreamParts, ended, over int, events ...string) {
		t.Helper()
		s := openai.NewStream(openai.StreamConfig{API: openai.LlamaCompletions, Parts: want})
		for i, e := range events {
			if feed(s, e); s.Ended() != (i >= ended) || s.Over() != (i >= over) {
				t.Errorf("%s, event %d: ended %v, over %v", name, i, s.Ended(), s.Over())
			}
		}
	}
	two, choices := openai.StreamParts{AtLeast: 2, AtMost: 2}, openai.StreamParts{AtLeast: 1, AtMost: 2}
	f("at once", two, 3, 3, part(0, no), part(1, no), part(0, yes), part(1, yes))
	f("one after the other", two, 3, 3, part(0, no), part(0, yes), part(1, no), part(1, yes))
	f("the second first", two, 1, 1, part(1, yes), part(0, yes))
	f("the same end twice", two, 2, 2, part(0, yes), part(0, yes), part(1, yes))
	f("several of one prompt", choices, 3, 3, part(0, no), part(1, no), part(1, yes), part(0, yes))
	f("an engine that ignores n_cmpl", choices, 1, 9, part(0, no), part(0, yes))
	f("the client chose the fields of the last event", openai.StreamParts{}, 1, 1, part(0, no), part(0, ""))
	f("and has several", two, 3, 3, part(0, no), `data: {"content":"x"}`+"\n\n", part(1, no), `data: {"content":"x"}`+"\n\n")
	s := openai.NewStream(openai.StreamConfig{API: openai.LlamaCompletions, Parts: choices})
	if feed(s, part(0, yes), part(1, no)); s.Ended() {
		t.Error("the second of one prompt has begun, and not ended")
	}
	var many []string
	for i := range 3000 {
		many = append(many, part(i, yes))
	}
	f("many", openai.StreamParts{AtLeast: 3000, AtMost: 3000}, 2999, 2999, many...)
	f("more than the request asked for", openai.StreamParts{}, 1, 1, part(1<<40, no), part(0, yes))
	// Each has a usage of its own.
	counts := func(i, of string) string {
		return `data: {"index":` + i + `,"content":"x","stop":true,"tokens_evaluated":5,"tokens_predicted":` + of + `,"timings":{"cache_n":2}}` + "\n\n"
	}
	s = openai.NewStream(openai.StreamConfig{API: openai.LlamaCompletions, Parts: two})
	feed(s, part(0, no), counts("0", "4"), part(1, no), counts("1", "3"))
	if u, ok := s.Usage(); !ok || u != (openai.Usage{Prompt: 10, Completion: 7, Cached: 4}) || !s.Over() {
		t.Errorf("usage %+v %v, over %v", u, ok, s.Over())
	}
}

// llama.cpp answers each prompt of a list, which it takes for one prompt if a token is in it.
func TestStreamPartsOfBody(t *testing.T) {
	t.Parallel()
	f := func(path, members string, atLeast, atMost uint32) {
		t.Helper()
		body, err := peekNative(t, path, `{"model":"m",`+members+`}`)
		if got := body.StreamParts(); err != nil || got != (openai.StreamParts{AtLeast: atLeast, AtMost: atMost}) {
			t.Errorf("%s %s: %+v, %v", path, members, got, err)
		}
	}
	f("/completion", `"prompt":"a"`, 1, 1)
	f("/completion", `"prompt":["a"]`, 1, 1)
	f("/completions", `"prompt":["a","b"]`, 2, 2)
	f("/completion", `"prompt":[[1,2],"b",{"prompt_string":"c"}]`, 3, 3)
	f("/completion", `"prompt":[1,2]`, 1, 1)
	f("/completion", `"prompt":["a",1,"b"]`, 1, 1)
	f("/completion", `"prompt":["a","b"],"n_cmpl":3`, 2, 6)
	f("/completion", `"n":2,"prompt":"a"`, 1, 2)
	f("/infill", `"prompt":["a","b"],"n_cmpl":2`, 1, 2)
}

// A line that is too long to be held passes in pieces, and means the same.
func TestLongJSONLines(t *testing.T) {
	c := openai.StreamConfig{API: openai.OllamaGenerate, Dialect: openai.DialectOllama, Framing: openai.JSONLines}
	text := ": x\n" + `{"response":"` + strings.Repeat(": queue", 50) + `","done":false}` + "\r\n\n" +
		`{"context":[` + strings.Repeat("1234,", 2000) + `1],"done":true,"eval_count":7}` + "\n"
	inPieces(text, func(pieces []string, size int) {
		s := openai.NewSmallStream(c, 256, 20000)
		if got := feed(s, pieces...); got != text || !s.Over() {
			t.Errorf("in pieces of %d: over %v, %d of %d bytes", size, s.Over(), len(got), len(text))
		}
		if u, ok := s.Usage(); !ok || u.Completion != 7 {
			t.Errorf("in pieces of %d: usage %+v", size, u)
		}
	})
	s := openai.NewSmallStream(c, 256, 1000)
	if feed(s, text); s.Err() == nil || s.Ended() {
		t.Error("a line of any length passes")
	}
}

func TestFramingOf(t *testing.T) {
	f := func(a openai.API, contentType string, want openai.Framing) {
		t.Helper()
		if got := openai.FramingOf(a, []byte(contentType)); got != want {
			t.Errorf("%v %q: %v", a, contentType, got)
		}
	}
	f(openai.OllamaChat, "application/x-ndjson", openai.JSONLines)
	f(openai.OllamaGenerate, " Application/X-NDJSON ; charset=utf-8", openai.JSONLines)
	f(openai.OllamaChat, "application/x-ndjsonl", openai.NoFraming)
	f(openai.OllamaChat, "application/json", openai.NoFraming)
	f(openai.OllamaEmbed, "application/x-ndjson", openai.NoFraming)
	f(openai.Chat, "application/x-ndjson", openai.NoFraming)
	f(openai.Chat, "text/event-stream; charset=utf-8", openai.EventStream)
	f(openai.OllamaChat, "text/event-stream", openai.EventStream)
	if openai.OllamaChat.QueueEvents() || !openai.Messages.QueueEvents() || !openai.Chat.QueueEvents() {
		t.Error("comments are possible in streams of events only")
	}
}
