package openai_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"colonnade/openai"
)

const (
	smallHeld  = 256
	smallEvent = 3000
)

// tell feeds text in pieces of the sizes that size returns.
func tell(c openai.StreamConfig, text string, size func() int) result {
	s := openai.NewSmallStream(c, smallHeld, smallEvent)
	var t result
	buf := make([]byte, len(text))
	for len(text) > 0 {
		n := min(max(size(), 1), len(text))
		p := buf[:n]
		copy(p, text)
		text = text[n:]
		t.delivered += string(s.Feed(p))
		for i := range p {
			p[i] = '#' // the stream must not read it any more
		}
	}
	t.tooLong = s.Err() != nil
	t.tail = string(s.Finish())
	t.first, _ = s.First()
	t.ended, t.failed, t.deltas = s.Ended(), s.Failed(), s.Deltas()
	t.usage, t.hasUsage = s.Usage()
	t.sequence = nextSequence(s)
	t.over, t.trailing = s.AtEnd(), s.Trailing()
	return t
}

func nextSequence(s *openai.Stream) int {
	var data struct {
		Sequence int `json:"sequence_number"`
	}
	_, body, _ := strings.Cut(string(s.AppendError(nil, openai.Internal(), "")), "data: ")
	_ = json.Unmarshal([]byte(body), &data)
	return data.Sequence
}

// The results and the output of a stream do not depend on how it is cut into pieces, and equal those of a naive model
// that reads the whole.
func checkStream(t *testing.T, text string, seed uint64, api uint8, strip bool) {
	c := openai.StreamConfig{API: openai.API(api%8) + openai.Chat, StripUsage: strip}
	r := rand.New(rand.NewPCG(seed, 0))
	whole := tell(c, text, func() int { return len(text) })
	for name, size := range map[string]func() int{
		"bytes":        func() int { return 1 },
		"pieces":       func() int { return r.IntN(12) },
		"large pieces": func() int { return r.IntN(500) },
		"mixed":        func() int { return r.IntN(1 + r.IntN(300)) },
	} {
		if got := tell(c, text, size); got != whole {
			t.Fatalf("%+v %q\nin %s %+v\nat once %+v", c, text, name, got, whole)
		}
	}
	model := streamModel{config: c, maxHeld: smallHeld, maxSize: smallEvent}
	model.read(text)
	if c.API != openai.Responses {
		model.sequence = 0
	}
	if !model.unknown && model.result != whole {
		t.Fatalf("%+v %q\n%+v\nmodel %+v", c, text, whole, model.result)
	}
}

func FuzzStream(f *testing.F) {
	f.Add(textEvent+usageEvent+doneEvent, uint64(1), uint8(0), true)
	f.Add("\ufeffdata: x\r\n\r\ndata:y\r\rdata\n\n: ping\n\nevent: error\ndata: {}\n\r", uint64(2), uint8(2), false)
	f.Add("data: {\"type\":\"response.completed\",\ndata: \"response\":{\"usage\":{\"input_tokens\":3}}}\n\n", uint64(3), uint8(2), false)
	f.Add("data: {\"type\":\"image.completed\",\"b64\":\""+strings.Repeat("A\\u0041\\\"ü", 200)+"\",\"usage\":{\"total_tokens\":3}}\n\n", uint64(4), uint8(5), false)
	f.Add("data: {\"choices\":[{\"text\":\"a\"},{\"text\":\"b\"}],\"x\":["+strings.Repeat("[1,{\"a\":[]}],", 60)+"0]}\n\n", uint64(5), uint8(1), true)
	f.Add("data: "+strings.Repeat("long ", 700)+"\n\ndata: [DONE]\n\n", uint64(6), uint8(0), true)
	f.Add(": queue position=1\n\n: Heartbeat\r\n:queued\n\n"+doneEvent+": queue position=2\n\n"+textEvent, uint64(8), uint8(0), true)
	f.Add("\ufeff:\tqueue\rdata: "+strings.Repeat("long ", 90)+"\n: heartbeat\r\n: other\n\n\xef:x\n\n", uint64(9), uint8(3), true)
	f.Add("data: {\"type\":\"image_generation.completed\"}\n\ndata: {\"type\":\"image_generation.partial_image\"}\n\n", uint64(10), uint8(5), true)
	f.Add(strings.Repeat("data: {\"error\":{\"code\":503}}\r\r\n", 3), uint64(7), uint8(0), true)
	f.Fuzz(func(t *testing.T, text string, seed uint64, api uint8, strip bool) {
		if len(text) > 1<<12 {
			return
		}
		checkStream(t, text, seed, api, strip)
	})
}

func TestStreamGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 1500 {
		var b strings.Builder
		if r.IntN(10) == 0 {
			b.WriteString("\ufeff")
		}
		for range r.IntN(6) {
			b.WriteString(generateEvent(r))
		}
		text := b.String()
		if r.IntN(3) == 0 && len(text) > 0 {
			text = text[:r.IntN(len(text))]
		}
		checkStream(t, text, r.Uint64(), uint8(r.IntN(9)), r.IntN(2) == 0)
	}
}

func pick(r *rand.Rand, of ...string) string { return of[r.IntN(len(of))] }

func generateEvent(r *rand.Rand) string {
	end := pick(r, "\n", "\n", "\r\n", "\r", "\n\r")
	field := func(name, value string) string { return name + pick(r, ": ", ": ", ":", ":  ") + value + end }
	var b strings.Builder
	for range r.IntN(3) {
		b.WriteString(pick(r, ": ping"+end, pick(r, ": queue position=1", ":heartbeat", ": \tQueue", ": queues", ":")+end, field("id", "1"), "data"+end, "x"+end,
			field("event", pick(r, "error", "ping", "response.completed", "x", strings.Repeat("n", 80)+".completed"))))
	}
	switch r.IntN(8) {
	case 0:
		b.WriteString(field("data", "[DONE]"))
	case 1:
		b.WriteString(field("data", pick(r, "", "x", "{}", "[1,2]", "null", "{", "[DONE", `{"type":"error"} x`)))
	case 2:
		b.WriteString(field("data", `{"choices":[],`) + field("data", `"usage":`+generateUsage(r)+"}"))
	default:
		b.WriteString(field("data", generateMessage(r)))
	}
	return b.String() + end
}

func generateUsage(r *rand.Rand) string {
	return pick(r, "null", "{}", `{"prompt_tokens":3,"completion_tokens":4}`, `{"total_tokens":9}`, `{"input_tokens":5,"output_tokens":6,"x":[{}]}`,
		`{"prompt_tokens":-3,"completion_tokens":1e2}`, `{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}`, `[]`, `"x"`,
		`{"type":"duration","seconds":1.5}`, `{"seconds":-1}`)
}

func generateMessage(r *rand.Rand) string {
	text := pick(r, `""`, `"a"`, `"\"\\"`, `"\u00e4ü日本"`, `"`+strings.Repeat(pick(r, "x", `\n`, `\u0041`, "ü"), r.IntN(700))+`"`, "null", "7")
	members := []string{}
	for range r.IntN(6) {
		members = append(members, pick(r,
			`"type":`+pick(r, `"response.completed"`, `"response.failed"`, `"error"`, `"ping"`, `"image_edit.completed"`, `"transcript.text.done"`, `"image_edit.partial_image"`,
				`"speech.audio.done"`, `"response\u002eincomplete"`, `"x"`, "null"),
			`"error":`+pick(r, "null", "{}", `""`, `"x"`, "0", "false", `{"code":503}`, `{"message":`+text+`,"code":"rate_limit_exceeded"}`),
			`"choices":`+pick(r, "[]", "[ ]", "null", `[{"delta":{"content":`+text+`}}]`, `[{"text":`+text+`},{"text":`+text+`},1]`, `[{"delta":{"role":"a"}}]`),
			`"usage":`+generateUsage(r),
			`"delta":`+text,
			`"sequence_number":`+pick(r, "0", "7", "-1", `"3"`),
			`"object":`+pick(r, `"error"`, `"chat.completion.chunk"`),
			`"response":`+pick(r, "null", `{"output":[{"a":`+text+`},{}],"usage":`+generateUsage(r)+`,"error":null}`),
			`"us\u0061ge":`+generateUsage(r),
			`"timings":`+pick(r, "null", "{}", `{"cache_n":1,"prompt_n":2}`, `{"cache_n":-1}`, `{"cache_n":99}`),
			`"x":`+pick(r, text, strings.Repeat("[", 70)+strings.Repeat("]", 70), `[1,[2,{"usage":{}}],`+text+`]`, "{ \"y\" : true }"),
		))
	}
	return "{" + strings.Join(members, pick(r, ",", ", ")) + "}"
}
