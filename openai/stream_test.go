package openai_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"colonnade/openai"
)

const (
	textEvent  = `data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}` + "\n\n"
	roleEvent  = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	usageEvent = `data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	doneEvent  = "data: [DONE]\n\n"
	imageEvent = `data: {"type":"image_generation.completed"}` + "\n\n"
)

// feed feeds the pieces and returns the output.
func feed(s *openai.Stream, pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		b.Write(s.Feed([]byte(p)))
	}
	return b.String()
}

func stream(api openai.API, pieces ...string) *openai.Stream {
	s := openai.NewStream(openai.StreamConfig{API: api})
	feed(s, pieces...)
	return s
}

func TestStreamDeliversWholeEvents(t *testing.T) {
	s := openai.NewStream(openai.StreamConfig{API: openai.Chat})
	f := func(piece, want string) {
		t.Helper()
		if got := string(s.Feed([]byte(piece))); got != want {
			t.Errorf("%q: %q instead of %q", piece, got, want)
		}
	}
	f(textEvent, textEvent)
	f(textEvent[:20], "")
	f(textEvent[20:], textEvent)
	f(textEvent+textEvent[:20], textEvent)
	f(textEvent[20:]+textEvent[:5], textEvent)
	f(textEvent[5:], textEvent)
	f(": ping", "")
	f("\n", "")
	f("\n", ": ping\n\n")
	f("\n\n\n", "\n\n\n")
	f("data: 1\r\n\r", "data: 1\r\n\r")
	f("\n", "\n")
	f("data: 1\r\rdata: 2\r", "data: 1\r\r")
	f("\rdata: 3\n\r", "data: 2\r\rdata: 3\n\r")
	f("", "")
	f("data: x\r", "")
	f("\n", "")
	f("\r", "data: x\r\n\r")
	f("\ndata: [DONE]\n\n", "\ndata: [DONE]\n\n")
	if !s.Ended() {
		t.Error("the end was not seen")
	}
}

func TestStreamDeliversWithoutCopying(t *testing.T) {
	s := openai.NewStream(openai.StreamConfig{API: openai.Chat, StripUsage: true})
	p := []byte(textEvent + ": x\n\n" + textEvent + textEvent[:10])
	if got := s.Feed(p); &got[0] != &p[0] || string(got) != textEvent+": x\n\n"+textEvent {
		t.Errorf("%q", got)
	}
	s.Feed([]byte(textEvent[10:]))
	chunk := []byte(textEvent)
	if n := testing.AllocsPerRun(100, func() { s.Feed(chunk) }); n != 0 {
		t.Errorf("%v allocations for a whole event", n)
	}
	if n := testing.AllocsPerRun(100, func() { s.Feed(chunk[:30]); s.Feed(chunk[30:]) }); n != 0 {
		t.Errorf("%v allocations for two halves", n)
	}
}

func TestStreamStripsUsage(t *testing.T) {
	f := func(api openai.API, strip bool, text, want string) {
		t.Helper()
		for _, size := range []int{1, 2, 3, 7, len(text)} {
			s := openai.NewStream(openai.StreamConfig{API: api, StripUsage: strip})
			if got := feed(s, split(text, size)...); got != want {
				t.Errorf("in pieces of %d: %q instead of %q", size, got, want)
			}
			if u, ok := s.Usage(); !ok || u != (openai.Usage{Prompt: 10, Completion: 20, Cached: 4}) {
				t.Errorf("usage %+v, %v", u, ok)
			}
		}
	}
	all := textEvent + usageEvent + doneEvent
	f(openai.Chat, true, all, textEvent+doneEvent)
	f(openai.Completions, true, all, textEvent+doneEvent)
	f(openai.Chat, false, all, all)
	f(openai.Responses, true, all, all)
	f(openai.Chat, true, usageEvent+all, textEvent+doneEvent)
	f(openai.Chat, true, all+usageEvent, textEvent+doneEvent)
	for _, end := range []string{"\r\n", "\r"} {
		f(openai.Chat, true, strings.ReplaceAll(all, "\n", end), strings.ReplaceAll(textEvent+doneEvent, "\n", end))
	}
	// Usage beside content, as some engines send it, belongs to the client.
	beside := strings.Replace(usageEvent, "[]", `[{"delta":{}}]`, 1)
	f(openai.Chat, true, beside+doneEvent, beside+doneEvent)
	filter := `data: {"choices":[],"prompt_filter_results":[]}` + "\n\n"
	f(openai.Chat, true, filter+all, filter+textEvent+doneEvent)
	null := `data: {"choices":[],"usage":null}` + "\n\n"
	f(openai.Chat, true, null+all, null+textEvent+doneEvent)
	failed := `data: {"choices":[],"usage":{},"error":{"message":"x"}}` + "\n\n"
	f(openai.Chat, true, failed+all, failed+textEvent+doneEvent)
}

func split(text string, size int) (pieces []string) {
	for len(text) > size {
		pieces = append(pieces, text[:size])
		text = text[size:]
	}
	return append(pieces, text)
}

func TestStreamEnds(t *testing.T) {
	f := func(api openai.API, text string, ended bool) {
		t.Helper()
		if s := stream(api, text); s.Ended() != ended || !s.NeedsEnd() {
			t.Errorf("%v %q: ended %v", api, text, s.Ended())
		}
	}
	event := func(kind string) string { return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"}\n\n" }
	f(openai.Chat, "", false)
	f(openai.Chat, textEvent, false)
	f(openai.Chat, doneEvent, true)
	f(openai.Chat, textEvent+"data:[DONE]\r\n\r\n", true)
	f(openai.Chat, "data: [DONE] \n\n", true)
	f(openai.Chat, "data: [DONE]\n", false)
	f(openai.Chat, "data: [DON\n\n", false)
	f(openai.Chat, ": [DONE]\n\n", false)
	f(openai.Chat, "event: [DONE]\n\n", false)
	f(openai.Chat, `data: "[DONE]"`+"\n\n", false)
	f(openai.Chat, `data: {"choices":[{"finish_reason":"stop"}]}`+"\n\n", false)
	f(openai.Completions, doneEvent, true)
	for _, kind := range []string{"response.completed", "response.incomplete", "response.failed", "error"} {
		f(openai.Responses, event(kind), true)
		f(openai.Responses, `data: {"type":"`+kind+`"}`+"\n\n", true)
		f(openai.Responses, "data: {}\nevent:"+kind+"\n\n", true)
		f(openai.Responses, "event: "+kind+"\ndata: {\n\n", false)
		f(openai.Responses, "event: "+kind+"\n\n", false)
		f(openai.Chat, event(kind), false)
	}
	f(openai.Responses, event("response.created")+event("response.output_text.done"), false)
	f(openai.Responses, doneEvent, false)
	f(openai.Transcriptions, event("transcript.text.done"), true)
	f(openai.Transcriptions, event("transcript.text.delta"), false)
	f(openai.Transcriptions, doneEvent, true)
	f(openai.Speech, event("speech.audio.done"), true)
	f(openai.Speech, event("speech.audio.delta"), false)
	f(openai.Images, event("image_generation.completed"), true)
	f(openai.Images, event("image_edit.completed"), true)
	f(openai.Images, event("image_generation.partial_image"), false)
	if s := stream(openai.Embeddings, doneEvent); s.NeedsEnd() || s.Ended() {
		t.Error("embeddings have an end of their own")
	}
}

func TestStreamFirst(t *testing.T) {
	f := func(api openai.API, text string, want openai.FirstEvent, status int, code string) {
		t.Helper()
		first, err := stream(api, text).First()
		if first != want || (err != nil) != (want == openai.ErrorEvent) || err != nil && (err.Status != status || err.Code != code) {
			t.Errorf("%q: %v, %v", text, first, err)
		}
	}
	data := func(s string) string { return "data: " + s + "\n\n" }
	f(openai.Chat, "", openai.NoEvent, 0, "")
	f(openai.Chat, ": ping\n\n:\n\n\n\ndata\n\ndata: \n\nevent: x\n\nid: 1\nretry: 5\n\n"+textEvent[:30], openai.NoEvent, 0, "")
	f(openai.Chat, textEvent, openai.DataEvent, 0, "")
	f(openai.Chat, doneEvent, openai.DataEvent, 0, "")
	f(openai.Chat, data("x"), openai.DataEvent, 0, "")
	f(openai.Chat, "\ufeff"+textEvent, openai.DataEvent, 0, "")
	f(openai.Responses, "event: keepalive\n"+data(`{"type":"keepalive","sequence_number":1}`), openai.NoEvent, 0, "")
	f(openai.Chat, "event: ping\n"+data("{}"), openai.NoEvent, 0, "")
	f(openai.Chat, textEvent+data(`{"error":{"code":503}}`), openai.DataEvent, 0, "")
	f(openai.Chat, ": ping\n\n"+data(`{"error":{"code":503}}`)+textEvent, openai.ErrorEvent, 503, "")
	f(openai.Chat, "\ufeff"+data(`{"error":{"code":503}}`), openai.ErrorEvent, 503, "")
	// Errors of engines.
	f(openai.Chat, data(`{"error":{"object":"error","message":"canary","type":"BadRequestError","param":null,"code":400}}`), openai.ErrorEvent, 400, "BadRequestError")
	f(openai.Chat, data(`{"object":"error","message":"canary","type":"InternalServerError","param":null,"code":500}`), openai.ErrorEvent, 500, "InternalServerError")
	f(openai.Chat, data(`{"error":{"message":"canary","code":"429"}}`), openai.ErrorEvent, 429, "")
	f(openai.Chat, data(`{"error":{"message":"canary","code":"rate_limit_exceeded"}}`), openai.ErrorEvent, 429, "rate_limit_exceeded")
	f(openai.Chat, data(`{"error":{"message":"canary","type":"rate_limit_error","code":null}}`), openai.ErrorEvent, 429, "rate_limit_error")
	f(openai.Chat, data(`{"error":"canary","error_type":"overloaded"}`), openai.ErrorEvent, 503, "overloaded")
	f(openai.Chat, data(`{"error":{"message":"canary","http_status_code":424}}`), openai.ErrorEvent, 424, "")
	f(openai.Chat, data(`{"error":{"message":"canary","type":"exceed_context_size_error","code":400}}`), openai.ErrorEvent, 400, "exceed_context_size_error")
	f(openai.Chat, data(`{"error":{"message":"canary"}}`), openai.ErrorEvent, 500, "")
	f(openai.Chat, data(`{"error":{"code":200}}`), openai.ErrorEvent, 500, "")
	f(openai.Chat, data(`{"error":{"code":"a prompt, perhaps"}}`), openai.ErrorEvent, 500, "")
	f(openai.Chat, data(`{"error":{"code":"`+strings.Repeat("c", 65)+`"}}`), openai.ErrorEvent, 500, "")
	f(openai.Chat, ": x\n\n\ufeff"+doneEvent, openai.NoEvent, 0, "")
	f(openai.Chat, data(`{"error":{}}`), openai.ErrorEvent, 500, "")
	f(openai.Chat, "event: error\n"+data(`oops`), openai.ErrorEvent, 500, "error")
	for _, none := range []string{"null", `""`, "0", "false"} {
		f(openai.Chat, data(`{"error":`+none+`}`), openai.DataEvent, 0, "")
	}
	f(openai.Responses, "event: error\n"+data(`{"type":"error","code":"server_error","message":"canary","param":null}`), openai.ErrorEvent, 500, "server_error")
	f(openai.Responses, data(`{"type":"error","error":{"type":"too_many_requests","code":"too_many_requests"}}`), openai.ErrorEvent, 429, "too_many_requests")
	f(openai.Responses, data(`{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded"}}}`), openai.ErrorEvent, 429, "rate_limit_exceeded")
	f(openai.Responses, data(`{"type":"response.created","response":{"error":null,"usage":null}}`), openai.DataEvent, 0, "")
}

func TestStreamFailedAndCounts(t *testing.T) {
	f := func(api openai.API, text string, failed bool, deltas int, want openai.Usage) {
		t.Helper()
		s := stream(api, text)
		if u, ok := s.Usage(); s.Failed() != failed || s.Deltas() != deltas || u != want || ok != (want != openai.Usage{}) {
			t.Errorf("%q: failed %v, deltas %d, usage %+v", text, s.Failed(), s.Deltas(), u)
		}
	}
	data := func(s string) string { return "data: " + s + "\n\n" }
	none := openai.Usage{}
	f(openai.Chat, roleEvent+textEvent+textEvent+usageEvent+doneEvent, false, 2, openai.Usage{Prompt: 10, Completion: 20, Cached: 4})
	f(openai.Chat, textEvent+data(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1},"timings":{"cache_n":6}}`)+doneEvent, false, 1,
		openai.Usage{Prompt: 9, Completion: 1, Cached: 6})
	f(openai.Chat, textEvent+data(`{"error":{"message":"x"}}`)+doneEvent, true, 1, none)
	f(openai.Completions, data(`{"choices":[{"text":"a"},{"text":"b"},{"text":""}]}`), false, 2, none)
	f(openai.Chat, data(`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{"}}]}}]}`), false, 1, none)
	f(openai.Chat, data(`{"choices":[{"delta":{"content":null,"reasoning_content":"hm","role":"assistant"}}]}`), false, 1, none)
	f(openai.Chat, data(`{"choices":[{"delta":{"content":"","tool_calls":[ ]}},{"delta":null},null,1]}`), false, 0, none)
	f(openai.Chat, data(`{"choices":null,"usage":{"prompt_tokens":1}}`), false, 0, openai.Usage{Prompt: 1})
	f(openai.Chat, data(`{"usage":{"prompt_tokens":-1,"completion_tokens":1.5,"x":"y"}}`), false, 0, none)
	f(openai.Responses, data(`{"type":"response.output_text.delta","delta":"a"}`)+data(`{"type":"response.completed","response":{"output":[{}],`+
		`"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":2},"output_tokens":7,"total_tokens":12}}}`), false, 1, openai.Usage{Prompt: 5, Completion: 7, Cached: 2})
	f(openai.Responses, data(`{"type":"response.failed","response":{"error":{"code":"server_error"}}}`), true, 0, none)
	f(openai.Transcriptions, data(`{"type":"transcript.text.delta","delta":"a"}`)+data(`{"type":"transcript.text.done","usage":`+
		`{"type":"tokens","input_tokens":14,"input_token_details":{"audio_tokens":14},"output_tokens":45}}`), false, 1, openai.Usage{Prompt: 14, Completion: 45})
	f(openai.Transcriptions, data(`{"type":"transcript.text.done","text":"a","usage":{"type":"duration","seconds":2}}`), false, 0, openai.Usage{Seconds: 2})
	f(openai.Transcriptions, data(`{"object":"transcription.chunk","choices":[{"delta":{"content":"a"}}]}`)+ // vLLM's form
		data(`{"object":"transcription.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`)+doneEvent,
		false, 1, openai.Usage{Prompt: 9, Completion: 1})
	f(openai.Speech, data(`{"type":"speech.audio.delta","audio":"AAAA"}`)+data(`{"type":"speech.audio.done","usage":{"input_tokens":14,"output_tokens":101,"total_tokens":115}}`),
		false, 0, openai.Usage{Prompt: 14, Completion: 101})
	picture := strings.Repeat("QUJD", 50_000)
	f(openai.Images, data(`{"type":"image_generation.partial_image","b64_json":"`+picture+`"}`)+data(`{"type":"image_generation.completed","b64_json":"`+picture+
		`","usage":{"total_tokens":100,"input_tokens":50,"output_tokens":50,"input_tokens_details":{"text_tokens":10,"image_tokens":40}}}`), false, 0, openai.Usage{Prompt: 50, Completion: 50})
	// Several data lines are one text.
	f(openai.Chat, "data: {\"choices\":\ndata:[],\ndata: \"usage\":\rdata:{\"prompt_tokens\":3}}\r\n\n", false, 0, openai.Usage{Prompt: 3})
	f(openai.Chat, "data: {\"usage\":{\"prompt_tokens\":3}}\ndata\n\n", false, 0, openai.Usage{Prompt: 3})
	f(openai.Chat, "data: {\"usage\":{\"prompt_tokens\":3}\n\n", false, 0, none)
	f(openai.Chat, "dat: {\"usage\":{\"prompt_tokens\":3}}\n\n", false, 0, none)
}

func TestStreamUnreportedDeltas(t *testing.T) {
	f := func(text string, unreported int) {
		t.Helper()
		if s := stream(openai.Chat, text); s.UnreportedDeltas() != unreported {
			t.Errorf("%q: %d unreported pieces, want %d", text, s.UnreportedDeltas(), unreported)
		}
	}
	sofar := strings.Replace(textEvent, `"choices"`, `"usage":{"prompt_tokens":3,"completion_tokens":1},"choices"`, 1)
	f(textEvent+textEvent, 2)
	f(sofar+textEvent, 1)
	f(sofar+textEvent+sofar, 0)
	f(textEvent+usageEvent+doneEvent, 0)
}

func TestStreamLongEvents(t *testing.T) {
	long := strings.Repeat("QUJD", 50_000)
	completed := "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"text\":\"" + long +
		"\"},{\"text\":\"x\"}],\"usage\":{\"input_tokens\":5,\"output_tokens\":7}},\"sequence_number\":9}\n\n"
	for _, size := range []int{1, 1000, 1 << 16, len(completed)} {
		s := openai.NewStream(openai.StreamConfig{API: openai.Responses})
		if got := feed(s, split(completed, size)...); got != completed {
			t.Fatalf("in pieces of %d: %d of %d bytes delivered", size, len(got), len(completed))
		}
		if u, _ := s.Usage(); u != (openai.Usage{Prompt: 5, Completion: 7}) || !s.Ended() || s.Err() != nil {
			t.Errorf("in pieces of %d: usage %+v, ended %v, %v", size, u, s.Ended(), s.Err())
		}
		if first, _ := s.First(); first != openai.DataEvent {
			t.Errorf("first %v", first)
		}
	}
	// An event is held up to the bound, and passes in pieces beyond it.
	s := openai.NewStream(openai.StreamConfig{API: openai.Chat})
	if got := s.Feed([]byte("data: " + long[:openai.MaxHeldEvent-6])); len(got) != 0 {
		t.Errorf("%d bytes of a piece delivered", len(got))
	}
	if got := s.Feed([]byte("x")); len(got) != openai.MaxHeldEvent+1 {
		t.Errorf("%d bytes delivered", len(got))
	}
	if got := s.Feed([]byte("\n\n" + textEvent)); string(got) != "\n\n"+textEvent {
		t.Errorf("%q", got)
	}
}

// The lines of an event that passes in pieces have the same meaning as in others.
func TestStreamLongEventLines(t *testing.T) {
	pad := `"pad":"` + strings.Repeat("x", openai.MaxHeldEvent) + `"`
	f := func(text string, failed, ended bool) {
		t.Helper()
		for _, size := range []int{61, 4096, len(text)} {
			s := stream(openai.Responses, split(text, size)...)
			if s.Failed() != failed || s.Ended() != ended {
				t.Errorf("in pieces of %d, ...%q: failed %v, ended %v", size, text[max(0, len(text)-40):], s.Failed(), s.Ended())
			}
		}
	}
	f("event: error\ndata: {"+pad+"}\n\n", true, true)
	f("event:error\r\ndata:{"+pad+"}\r\n\r\n", true, true)
	f("event:  error\ndata: {"+pad+"}\n\n", false, false)
	f("event: error\nevent\ndata: {"+pad+"}\n\n", false, false)
	f("event: error\nevents: x\ndata: {"+pad+"}\n\n", true, true)
	f("data: {"+pad+",\ndata: \"type\":\ndata: \"error\"}\n\n", true, true)
	f("data: {\"type\":\"error\",\"x\":1\ndata: 2,"+pad+"}\n\n", false, false)
	f("event: error\ndata: {"+pad+"\n\n", true, false)
	f("event: error\ndata: {"+pad+"\n\ndata: {"+pad+"}\n\n", true, false)
	f("event: response.failed\n"+":"+pad+"\n\ndata: {"+pad+"}\n\n", false, false)
	f("\ufeffevent: error\rdata: {"+pad+"}\r\r", true, true)
	f("data: {}\n\n\ufeffevent: error\ndata: {"+pad+"}\n\n", false, false)
	f("data: {"+pad+"}\n\nevent: error\ndata: {"+pad[:100]+"\"}\n\n", true, true)
	// After a usage event that was taken out, a long one passes complete.
	s := openai.NewStream(openai.StreamConfig{API: openai.Chat, StripUsage: true})
	long := "data: {" + pad + "}\r\n\r\n"
	if got := feed(s, split(usageEvent+long, 1000)...); got != long {
		t.Errorf("%d bytes instead of %d", len(got), len(long))
	}
}

func TestStreamEventTooLong(t *testing.T) {
	s := openai.NewStream(openai.StreamConfig{API: openai.Chat})
	n := 0
	piece := make([]byte, 1<<20)
	for i := range piece {
		piece[i] = 'x'
	}
	for range 20 {
		n += len(s.Feed(piece))
	}
	if n != openai.MaxEvent || !errors.Is(s.Err(), openai.ErrEventTooLong) {
		t.Errorf("%d bytes, %v", n, s.Err())
	}
	if got := string(s.AppendError(nil, openai.EngineFailed(""), "")); !strings.HasPrefix(got, "\n\ndata: {") {
		t.Errorf("%q", got)
	}
}

func TestStreamFinish(t *testing.T) {
	f := func(api openai.API, text, want string, ended bool) {
		t.Helper()
		s := openai.NewStream(openai.StreamConfig{API: api})
		feed(s, text)
		if got := string(s.Finish()); got != want || s.Ended() != ended {
			t.Errorf("%q: %q, ended %v", text, got, s.Ended())
		}
		if got := s.Finish(); len(got) > 0 {
			t.Errorf("%q: %q again", text, got)
		}
	}
	f(openai.Chat, doneEvent, "", true)
	f(openai.Chat, textEvent+"data: [DONE]", "data: [DONE]\n\n", true)
	f(openai.Chat, textEvent+"data: [DONE]\n", "data: [DONE]\n\n\n", true)
	f(openai.Chat, textEvent+"data: [DON", "", false)
	f(openai.Chat, textEvent+strings.TrimSpace(textEvent), "", false)
	f(openai.Chat, doneEvent+": bye", "", true)
	f(openai.Images, imageEvent+": bye", ": bye", true)
	f(openai.Images, imageEvent+": queue position=1", ":", true)
	f(openai.Embeddings, textEvent+"data: x", "data: x", false)
	f(openai.Responses, `data: {"type":"response.completed"}`, "data: {\"type\":\"response.completed\"}\n\n", true)
	f(openai.Responses, `data: {"type":"response.completed"`, "", false)
	s := stream(openai.Chat, `data: {"error":{"message":"x"},"usage":{"prompt_tokens":1}}`)
	s.Finish()
	if _, ok := s.Usage(); ok || s.Failed() {
		t.Error("a piece that was dropped has left traces")
	}
}

func TestAppendError(t *testing.T) {
	e := openai.EngineFailed("cut")
	chat := string(stream(openai.Chat, textEvent, textEvent[:20]).AppendError([]byte("before"), e, "req-1"))
	body, ok := strings.CutPrefix(chat, "beforedata: ")
	if !ok || !strings.HasSuffix(body, "}\n\n") || strings.Count(body, "\n") != 2 {
		t.Fatalf("%q", chat)
	}
	var data struct {
		Type     string
		Sequence *int `json:"sequence_number"`
		Code     string
		Message  string
		Param    *string
		Error    map[string]any
	}
	if err := json.Unmarshal([]byte(body), &data); err != nil || data.Error["code"] != "engine_error" || data.Error["request_id"] != "req-1" {
		t.Errorf("%q: %v", body, err)
	}
	s := stream(openai.Responses, `data: {"type":"response.created","sequence_number":0}`+"\n\n"+`data: {"type":"x","sequence_number":41}`+"\n\n")
	body, ok = strings.CutPrefix(string(s.AppendError(nil, e, "req-1")), "event: error\ndata: ")
	if err := json.Unmarshal([]byte(body), &data); !ok || err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	if data.Type != "error" || data.Sequence == nil || *data.Sequence != 42 || data.Code != "engine_error" || data.Message != e.Message ||
		data.Param != nil || data.Error["type"] != "server_error" {
		t.Errorf("%q", body)
	}
	// The error event of another node reads as one, and ends a responses stream.
	again := stream(openai.Responses, "event: error\ndata: "+body)
	first, engine := again.First()
	if first != openai.ErrorEvent || engine.Code != "engine_error" || !again.Ended() || !again.Failed() {
		t.Errorf("%v, %v", first, engine)
	}
}

func TestIsEventStream(t *testing.T) {
	for _, yes := range []string{"text/event-stream", "text/event-stream; charset=utf-8", "Text/Event-Stream;x", " text/event-stream ;x"} {
		if !openai.IsEventStream([]byte(yes)) {
			t.Errorf("%q", yes)
		}
	}
	for _, no := range []string{"", "text/event-streams", "text/plain", "application/json; text/event-stream", "text/event-strea"} {
		if openai.IsEventStream([]byte(no)) {
			t.Errorf("%q", no)
		}
	}
}

// After the end of its API, a stream delivers nothing, however its bytes are cut into pieces.
func TestStreamDropsWhatFollowsItsEnd(t *testing.T) {
	f := func(api openai.API, text, behind, want string) {
		t.Helper()
		for _, size := range []int{1, 2, 7, 1 << 20} {
			s := openai.NewStream(openai.StreamConfig{API: api})
			got := feed(s, split(text+behind, size)...) + string(s.Finish())
			if got != text+want || s.Trailing() != (want != behind) {
				t.Errorf("%s, in pieces of %d: %q behind the end, trailing %v; want %q", api, size, strings.TrimPrefix(got, text), s.Trailing(), want)
			}
		}
	}
	response := func(kind string) string { return "data: {\"type\":\"" + kind + "\"}\n\n" }
	for _, behind := range []string{textEvent, ": bye", "\n", "\x00garbage", doneEvent} {
		f(openai.Chat, textEvent+doneEvent, behind, "")
		f(openai.Completions, doneEvent, behind, "")
		f(openai.Responses, response("response.completed"), behind, "")
		f(openai.Responses, response("response.failed"), behind, "")
		f(openai.Transcriptions, response("transcript.text.done"), behind, "")
		f(openai.Speech, response("speech.audio.done"), behind, "")
		f(openai.Chat, "data: {\"error\":{}}\n\n"+doneEvent, behind, "")
		f(openai.Images, imageEvent+doneEvent, behind, "")
	}
	f(openai.Chat, "data: [DONE]\r\n\r\n", "", "")
	f(openai.Chat, "data: [DONE]\r\n\r", "\n", "\n")
	f(openai.Images, imageEvent, imageEvent, imageEvent)
	f(openai.Responses, response("error"), response("response.failed"), response("response.failed"))
	f(openai.Embeddings, textEvent+doneEvent, textEvent, textEvent)
}

// A stream of images is at its end only while no image is incomplete.
func TestStreamOfSeveralImages(t *testing.T) {
	const partial = `data: {"type":"image_generation.partial_image"}` + "\n\n"
	for text, ended := range map[string]bool{partial: false, partial + imageEvent: true, imageEvent + partial: false, imageEvent + ": x\n\n" + imageEvent: true} {
		if s := stream(openai.Images, text); s.Ended() != ended || s.Over() {
			t.Errorf("%q: ended %v, over %v; want %v and not over", text, s.Ended(), s.Over(), ended)
		}
	}
}

// Comments that look like an entry's are delivered empty, and all others as they are.
func TestStreamEmptiesNodeComments(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		for _, size := range []int{1, 3, 1 << 20} {
			s := openai.NewStream(openai.StreamConfig{API: openai.Chat})
			if got := feed(s, split(text, size)...); got != want {
				t.Errorf("%q in pieces of %d: %q, want %q", text, size, got, want)
			}
		}
	}
	for _, ours := range []string{": queue position=1 expected_ms=20", ":queue", ": heartbeat", ":\t HeartBeat 12:00", ": queue: 7"} {
		f(ours+"\n\n", ":\n\n")
		f(ours+"\r\n"+textEvent, ":\r\n"+textEvent)
		f(textEvent[:len(textEvent)-1]+ours+"\r\r", textEvent[:len(textEvent)-1]+":\r\r")
		f("\ufeff"+ours+"\n\n", "\ufeff:\n\n")
	}
	for _, other := range []string{":", ": ", ": ping", ": queued", ": heartbeats", "queue: 1", "data: : queue", " : queue"} {
		f(other+"\n\n", other+"\n\n")
	}
	long := "data: " + strings.Repeat("x", openai.MaxHeldEvent)
	f(long+"\n: queue position=1\n: other\ndata: y\n\n: other\n\n", long+"\n:\n:\ndata: y\n\n: other\n\n")
	f(": queue "+long+"\n\n", ":\n\n")
}
