package messages_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"colonnade/openai"
	"colonnade/openai/messages"
)

// newFeed returns a chat stream whose client speaks Messages.
func newFeed(a *messages.Asked) *openai.Stream {
	translator := messages.NewStream(a).Translator()
	translator.RequestID = "r"
	return openai.NewStream(openai.StreamConfig{API: openai.Chat, Dialect: openai.DialectAnthropic, Translate: translator})
}

// feed feeds text in pieces, and returns the stream and all that it has delivered.
func feed(text string, size func() int) (*openai.Stream, string) {
	s := newFeed(&messages.Asked{ShowThinking: true})
	var out strings.Builder
	for text != "" {
		n := min(max(size(), 1), len(text))
		out.Write(s.Feed([]byte(text[:n])))
		text = text[n:]
	}
	out.Write(s.Finish())
	return s, out.String()
}

func atOnce(text string) (*openai.Stream, string) { return feed(text, func() int { return len(text) }) }

const done = "data: [DONE]\n\n"

func event(data string) string { return "data: " + data + "\n\n" }

func TestFeed(t *testing.T) {
	text := event(chunk(`"role":"assistant","content":""`, "null")) + ": processing\n\n" + event(chunk(`"content":"hi"`, "null")) + event(chunk(``, `"stop"`))
	used := event(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3}}}`)
	for _, ends := range []string{"\n", "\r\n", "\r"} {
		s, out := atOnce(strings.ReplaceAll(text+used+done, "\n", ends))
		m := accumulate(t, strings.ReplaceAll(out, ":\n\n", ""))
		if m == nil || m.Content[0].Text != "hi" || m.Usage != (usage{Input: 7, Output: 4, Cached: 3}) || !s.Over() {
			t.Fatalf("%q became %q", ends, out)
		}
		if !strings.Contains(out, ":\n\n") {
			t.Fatalf("the sign of life is gone: %s", out)
		}
	}
	s, out := atOnce(text + done)
	if m := accumulate(t, strings.ReplaceAll(out, ":\n\n", "")); m.Usage.Output != 1 || s.UnreportedDeltas() != 1 {
		t.Fatalf("without a report, used %+v", m.Usage)
	}
	if _, out = atOnce(text + strings.TrimSpace(done)); accumulate(t, strings.ReplaceAll(out, ":\n\n", "")) == nil {
		t.Fatalf("an end without its blank line is lost: %s", out)
	}
}

// Wherever a stream is cut, it does not look complete, and an error event in Anthropic's shape can follow.
func TestFeedCut(t *testing.T) {
	text := event(chunk(`"content":"a"`, "null")) + event(chunk(`"tool_calls":[{"index":0,"id":"t","function":{"name":"f","arguments":"{}"}}]`, "null")) + event(chunk(``, `"tool_calls"`)) + done
	for n := range len(text) - len("[DONE]\n\n") {
		s, out := atOnce(text[:n])
		if s.Ended() || strings.Contains(out, "message_stop") || strings.Contains(out, "message_delta") {
			t.Fatalf("%q became %s", text[:n], out)
		}
		if strings.HasSuffix(out, "\n\n") != (out != "") {
			t.Fatalf("%q ended inside an event: %q", text[:n], out)
		}
		failed := string(s.AppendError(nil, openai.Internal(), "r"))
		if !strings.HasPrefix(failed, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"") {
			t.Fatalf("%s", failed)
		}
	}
}

// An engine's error becomes one of Anthropic's shape, and nothing follows it, in particular no message_stop.
func TestFeedError(t *testing.T) {
	s, out := atOnce(event(chunk(`"content":"a"`, "null")) + event(`{"error":{"message":"out of memory","type":"server_error","code":500}}`) + event(chunk(`"content":"b"`, `"stop"`)) + done)
	want := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"the inference engine failed: out of memory\",\"param\":null," +
		"\"code\":\"engine_error\",\"number\":50001,\"reason\":\"engine_status\",\"retry_after_ms\":null,\"request_id\":\"r\"},\"request_id\":\"r\"}"
	if !s.Failed() || s.Over() || !strings.Contains(out, want) || strings.Contains(out, "message_stop") || strings.Count(out, "event: error") != 1 || strings.Contains(out, `"b"`) {
		t.Fatal(out)
	}
	f := func(code int, want ...string) {
		t.Helper()
		_, out := atOnce(event(chunk(`"content":"a"`, "null")) + event(fmt.Sprintf(`{"error":{"message":"said","code":%d}}`, code)))
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%d: %s, want %s", code, out, part)
			}
		}
	}
	f(400, `"type":"invalid_request_error","message":"said"`, `"number":40001`)
	f(503, `"type":"api_error","message":"the inference engine failed: said"`, `"number":50001`)
	f(401, `"type":"api_error","message":"the inference engine failed: it does not accept`, `"number":50001,"reason":"endpoint_misconfigured"`)
	first := newFeed(&messages.Asked{})
	first.Feed([]byte(event(`{"error":{"message":"full","code":429}}`)))
	kind, e := first.First()
	if kind != openai.ErrorEvent || e.Status != 429 {
		t.Fatalf("%v %+v", kind, e)
	}
}

func TestFeedBroken(t *testing.T) {
	for _, data := range []string{`{"choices":[`, `x`, `{"choices":[{"delta":{"tool_calls":[{"index":3,"function":{"arguments":"x"}}]}}]}`} {
		s, out := atOnce(event(chunk(`"content":"a"`, "null")) + event(data) + done)
		if s.Err() == nil || s.Ended() || strings.Contains(out, "message_stop") {
			t.Errorf("%s: %v %s", data, s.Err(), out)
		}
	}
}

// An event longer than those that chat passes in pieces is translated whole.
func TestFeedLong(t *testing.T) {
	long := strings.Repeat("long ", 1<<16)
	s, out := feed(event(chunk(`"content":"`+long+`"`, `"stop"`))+done, func() int { return 4000 })
	if m := accumulate(t, out); m == nil || m.Content[0].Text != long || s.Err() != nil {
		t.Fatalf("%v, %d bytes", s.Err(), len(out))
	}
	s, _ = feed("data: "+strings.Repeat("x", openai.MaxEvent), func() int { return 1 << 20 })
	if s.Err() == nil {
		t.Fatal("an event without an end is held")
	}
}

// The events do not depend on how the bytes were cut into pieces, and are valid whatever the engine sends.
func FuzzFeed(f *testing.F) {
	f.Add(event(chunk(`"content":"a"`, "null"))+": ping\r\n\r\n"+event(chunk(`"reasoning":"b"`, `"stop"`))+done, uint64(1))
	f.Add("\ufeffdata: {\"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":-1}}\r\rdata: [DONE]", uint64(2))
	f.Add(event(`{"error":{"code":503}}`)+event(chunk(`"content":"a"`, `"stop"`))+done, uint64(3))
	f.Add("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\nevent: message_stop\n\n"+done, uint64(4))
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		whole, want := atOnce(text)
		pieces, got := feed(text, func() int { return r.IntN(40) })
		if whole.Err() == nil && got != want || (whole.Err() == nil) != (pieces.Err() == nil) {
			t.Fatalf("%q\nin pieces %q\nat once   %q", text, got, want)
		}
		if whole.Failed() {
			return
		}
		if m := accumulate(t, strings.ReplaceAll(want, ":\n\n", "")); (m != nil) != whole.Ended() {
			t.Fatalf("%q\nbecame %q", text, want)
		}
	})
}

// benchChunk is a chunk as vLLM sends it.
const benchChunk = `data: {"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion.chunk","created":1741569952,` +
	`"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" Hello"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

// BenchmarkChunk reports what a translated chunk costs beside one that is passed, as their ratio.
func BenchmarkChunk(b *testing.B) {
	piece := []byte(benchChunk)
	passed := openai.NewStream(openai.StreamConfig{API: openai.Chat, StripUsage: true})
	translated := newFeed(&messages.Asked{})
	cost := map[*openai.Stream]float64{}
	for b.Loop() { // in turns, since other work disturbs both
		for _, s := range []*openai.Stream{passed, translated} {
			began := time.Now()
			for range 100 {
				s.Feed(piece)
			}
			cost[s] += float64(time.Since(began))
		}
	}
	b.ReportMetric(cost[passed]/float64(b.N)/100, "ns/passed")
	b.ReportMetric(cost[translated]/float64(b.N)/100, "ns/translated")
	b.ReportMetric(cost[translated]/cost[passed], "ratio")
	b.ReportAllocs()
}
