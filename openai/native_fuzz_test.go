package openai_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"colonnade/openai"
)

// nativeModel reads a whole stream of an engine's own API at once, in the simplest way.
type nativeModel struct {
	ended, failed bool
	delivered     string
}

// read stops at the end, behind which nothing is delivered. Only texts without comments and long events are read.
func (m *nativeModel) read(c openai.StreamConfig, text string) {
	rest := text
	for rest != "" && !m.ended {
		end, size := strings.Index(rest, "\n\n"), 2
		if c.Framing == openai.JSONLines {
			end, size = strings.Index(rest, "\n"), 1
		}
		if end < 0 {
			return
		}
		event := rest[:end+size]
		rest = rest[len(event):]
		m.delivered += event
		name, data := "", strings.TrimSpace(event)
		if c.Framing != openai.JSONLines {
			name, data = eventFields(event, false)
		}
		m.note(c.API, name, data)
	}
}

func (m *nativeModel) note(a openai.API, name, data string) {
	if data == "" || strings.HasPrefix(data, "[DONE]") {
		return
	}
	var v map[string]json.RawMessage
	valid := json.Unmarshal([]byte(data), &v) == nil && v != nil
	var kind string
	if json.Unmarshal(v["type"], &kind) != nil || v["type"][0] != '"' {
		kind = name
	}
	e := string(v["error"])
	m.failed = m.failed || name == "error" || kind == "error" || kind == "response.failed" || string(v["object"]) == `"error"` ||
		e != "" && e != "null" && e != "false" && e != "0" && e != `""`
	switch a {
	case openai.Messages:
		m.ended = valid && kind == "message_stop"
	case openai.OllamaChat, openai.OllamaGenerate:
		m.ended = string(v["done"]) == "true"
	case openai.Generate:
		m.ended = strings.HasPrefix(string(v["generated_text"]), `"`)
	}
}

// The results and the output of a stream do not depend on how it is cut into pieces, and equal those of a naive model that reads the whole.
func checkNativeStream(t *testing.T, text string, seed uint64, which uint8) {
	configs := nativeStreams()
	c := configs[int(which)%len(configs)].config
	r := rand.New(rand.NewPCG(seed, 0))
	whole := tell(c, text, func() int { return len(text) })
	for name, size := range map[string]func() int{"bytes": func() int { return 1 }, "pieces": func() int { return r.IntN(12) }, "large pieces": func() int { return r.IntN(500) }} {
		if got := tell(c, text, size); got != whole {
			t.Fatalf("%+v %q\nin %s %+v\nat once %+v", c, text, name, got, whole)
		}
	}
	if c.API == openai.Infill || c.API == openai.LlamaCompletions || !isPlain(text) {
		return
	}
	var m nativeModel
	m.read(c, text)
	if whole.tail != "" { // the last event has no end of its own
		return
	}
	if m.ended != whole.ended || m.failed != whole.failed || m.delivered != whole.delivered {
		t.Fatalf("%+v %q\n%+v\nmodel %+v", c, text, whole, m)
	}
}

// isPlain reports whether the model reads a text as a stream does: it knows neither long events nor comments, other line ends, escapes and empty
// events.
func isPlain(text string) bool {
	for _, odd := range []string{"\r", "\\", "\ufeff", "\n:", "\n\n\n"} {
		if strings.Contains(text, odd) {
			return false
		}
	}
	return len(text) <= smallHeld && !strings.HasPrefix(text, ":") && !strings.HasPrefix(text, "\n") && !hasRepeatedKey(text)
}

// hasRepeatedKey reports whether a word in quotes that is followed by a colon occurs twice in a line: the model keeps the last of such members only.
func hasRepeatedKey(text string) bool {
	for line := range strings.Lines(text) {
		seen := map[string]bool{}
		parts := strings.Split(line, `"`)
		for i := 1; i+1 < len(parts); i++ {
			if strings.HasPrefix(strings.TrimSpace(parts[i+1]), ":") {
				if seen[parts[i]] {
					return true
				}
				seen[parts[i]] = true
			}
		}
	}
	return false
}

func FuzzNativeStream(f *testing.F) {
	for i, n := range nativeStreams() {
		f.Add(n.text, uint64(i), uint8(i))
		f.Add(n.text[len(n.text)/2:]+n.text, uint64(i), uint8(i))
	}
	f.Add("{\"error\":\"x\"}\n{\"done\":true}\n{}\n", uint64(9), uint8(1))
	f.Add("{\"done\":true", uint64(9), uint8(1))
	f.Add("event: error\ndata: {\"code\":500}\n\nevent: message_stop\ndata: {}\n\n", uint64(10), uint8(0))
	f.Add("data: {\"stop\":false,\"index\":70}\n\ndata: {\"index\":-1}\n\ndata: {\"stop\":true,\"index\":70}\n\n", uint64(11), uint8(4))
	f.Add("{\"response\":\""+strings.Repeat("x", 300)+"\",\"done\":true}\n", uint64(12), uint8(2))
	f.Fuzz(func(t *testing.T, text string, seed uint64, which uint8) {
		if len(text) <= 1<<12 {
			checkNativeStream(t, text, seed, which)
		}
	})
}

func TestNativeStreamGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		which := r.IntN(len(nativeStreams()))
		lines := nativeStreams()[which].config.Framing == openai.JSONLines
		var b strings.Builder
		for range r.IntN(5) {
			members := []string{}
			for range r.IntN(4) {
				members = append(members, pick(r, `"done":`+pick(r, "true", "false", `"true"`, "1"), `"generated_text":`+pick(r, "null", `"x"`, `""`, "7"),
					`"type":`+pick(r, `"message_stop"`, `"message_delta"`, `"error"`, "null"), `"error":`+pick(r, "null", `"x"`, `{"type":"overloaded_error"}`),
					`"stop":`+pick(r, "true", "false"), `"index":`+pick(r, "0", "1", "70"), `"usage":{"input_tokens":3}`, `"x":`+pick(r, `"[DONE]"`, `[{"done":true}]`)))
			}
			data := pick(r, "{"+strings.Join(members, ",")+"}", "{"+strings.Join(members, ",")+"}", "{", "[DONE]", "")
			if lines {
				b.WriteString(data + "\n")
			} else {
				b.WriteString(pick(r, "", "event: message_stop\n", "event: error\n") + "data: " + data + "\n\n")
			}
		}
		text := b.String()
		if r.IntN(3) == 0 && text != "" {
			text = text[:r.IntN(len(text))]
		}
		checkNativeStream(t, text, r.Uint64(), uint8(which))
	}
}
