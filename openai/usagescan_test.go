package openai_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"colonnade/openai"
)

// inPieces calls f with text in pieces of several sizes.
func inPieces(text string, f func(pieces []string, size int)) {
	for _, size := range []int{1, 2, 7, 4096, len(text)} {
		f(split(text, size), size)
	}
}

func TestUsageScanner(t *testing.T) {
	f := func(body string, want openai.Usage, ok bool) {
		t.Helper()
		inPieces(body, func(pieces []string, size int) {
			l := openai.UsageScanner{API: openai.Chat}
			for _, p := range pieces {
				l.Write([]byte(p))
			}
			if got, is := l.Usage(); is != ok || ok && got != want {
				t.Errorf("%.80s… in pieces of %d: %+v, %v, want %+v, %v", body, size, got, is, want, ok)
			}
		})
	}
	vector := "[" + strings.Repeat("0.123456789,", 3000) + "1]"
	data := strings.Repeat(`{"object":"embedding","embedding":`+vector+`},`, 7) + `{"embedding":` + vector + `}`
	f(`{"object":"list","data":[`+data+`],"model":"m","usage":{"prompt_tokens":70,"total_tokens":70}}`, openai.Usage{Prompt: 70}, true)
	picture := base64.StdEncoding.EncodeToString(make([]byte, 200<<10))
	f(`{"created":1,"data":[{"b64_json":"`+picture+`"},{"b64_json":"`+picture+`"}],"usage":{"input_tokens":7,"output_tokens":1000,"total_tokens":1007,`+
		`"input_tokens_details":{"text_tokens":7}}}`, openai.Usage{Prompt: 7, Completion: 1000}, true)
	said := strings.Repeat(`\"usage\":{\"prompt_tokens\":9} `, 4000)
	f(`{"choices":[{"message":{"content":"`+said+`"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, openai.Usage{Prompt: 1, Completion: 2}, true)
	f(`{"usage":{"prompt_tokens":1,"completion_tokens":2},"choices":[{"message":{"content":"`+said+`"}}]}`, openai.Usage{Prompt: 1, Completion: 2}, true)
	f(`{"usage":{"prompt_tokens":1},"choices":[{"message":{"content":"`+said, openai.Usage{}, false)
	f(`{"text":"`+said+`"}`, openai.Usage{}, false)
	f(said, openai.Usage{}, false)
	f("", openai.Usage{}, false)
}

// However many writes there are, memory stays bounded.
func TestUsageScannerIsBounded(t *testing.T) {
	l := openai.UsageScanner{API: openai.Chat}
	piece := []byte(strings.Repeat(`"x":{"y":[1,2,"z"]},`, 100))
	l.Write([]byte("{"))
	for range 100 {
		l.Write(piece)
	}
	if n := testing.AllocsPerRun(1000, func() { l.Write(piece) }); n != 0 {
		t.Errorf("%v allocations for a piece", n)
	}
}

func done(input, output, cached int) string {
	return fmt.Sprintf(`{"type":"response.done","response":{"object":"realtime.response","status":"completed","output":[{"content":[{"transcript":"x"}]}],`+
		`"usage":{"total_tokens":%d,"input_tokens":%d,"output_tokens":%d,"input_token_details":{"cached_tokens":%d,"audio_tokens":3,`+
		`"cached_tokens_details":{"text_tokens":9}},"output_token_details":{"text_tokens":1}}}}`, input+output, input, output, cached)
}

func TestConversation(t *testing.T) {
	f := func(want openai.Usage, known bool, deltas int, messages ...string) {
		t.Helper()
		for _, size := range []int{1, 3, 100, 1 << 20} {
			var c openai.Conversation
			for _, m := range messages {
				for _, p := range split(m, size) {
					c.Write([]byte(p))
				}
				c.EndMessage()
			}
			if got, is := c.Usage(); is != known || got != want || c.Deltas() != deltas {
				t.Errorf("in pieces of %d: %+v, %v, %d deltas; want %+v, %v, %d", size, got, is, c.Deltas(), want, known, deltas)
			}
		}
	}
	text := `{"type":"response.output_text.delta","delta":"word"}`
	transcript := `{"type":"response.output_audio_transcript.delta","delta":"word"}`
	sound := `{"type":"response.output_audio.delta","delta":"` + strings.Repeat("AAAA", 10_000) + `"}`
	f(openai.Usage{}, false, 0)
	f(openai.Usage{}, false, 0, `{"type":"session.created","session":{}}`, "", "no JSON", "{")
	f(openai.Usage{}, false, 3, text, text, transcript, sound)
	f(openai.Usage{Prompt: 5, Completion: 7, Cached: 2}, true, 0, text, text, done(5, 7, 2))
	f(openai.Usage{Prompt: 11, Completion: 15, Cached: 3}, true, 1, text, done(5, 7, 2), text, done(6, 8, 1), text)
	f(openai.Usage{Prompt: 5, Completion: 7, Cached: 2}, true, 1, done(5, 7, 2), text, `{"type":"response.done","response":{"usage":null}}`)
	f(openai.Usage{Prompt: 5, Completion: 7}, true, 0, strings.Replace(done(5, 7, 0), `"x"`, `"`+strings.Repeat("x", 100<<10)+`"`, 1))
	// Usage of another model, which transcribes, does not count.
	f(openai.Usage{}, false, 0, `{"type":"conversation.item.input_audio_transcription.completed","transcript":"x","usage":{"type":"tokens","input_tokens":9,"output_tokens":9}}`,
		`{"type":"conversation.item.input_audio_transcription.delta","delta":"x"}`)
	f(openai.Usage{}, false, 0, `{"type":"response.created","response":{"usage":null}}`, `{"type":"rate_limits.updated","usage":{"input_tokens":9}}`)
}
