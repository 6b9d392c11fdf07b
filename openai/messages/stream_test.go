package messages_test

import (
	"encoding/json"
	"strings"
	"testing"

	"colonnade/openai"
	"colonnade/openai/messages"
)

// chunk returns the data of a chunk with a delta and the members behind it.
func chunk(delta, finish string) string {
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{` + delta + `},"finish_reason":` + finish + `}]}`
}

// streamed returns the events for chunks, and for the end if the stream has one.
func streamed(t *testing.T, a messages.Asked, chunks ...string) string {
	t.Helper()
	s := messages.NewStream(&a)
	var out []byte
	for _, c := range chunks {
		var ok bool
		if out, ok = s.Event(out, []byte(c)); !ok {
			t.Fatalf("%s is no chunk", c)
		}
	}
	return string(s.End(out, openai.Usage{Prompt: 10, Cached: 3, Completion: 4}))
}

// accumulate reads events as the official SDKs do, and is stricter: it wants the events of each block in a row.
func accumulate(t *testing.T, text string) *message {
	t.Helper()
	var m *message
	done := false
	for text != "" {
		event, rest, ok := strings.Cut(text, "\n\n")
		name, data, ok2 := strings.Cut(event, "\ndata: ")
		name, ok3 := strings.CutPrefix(name, "event: ")
		if !ok || !ok2 || !ok3 || strings.ContainsAny(data, "\r\n") || done {
			t.Fatalf("%q is no event in its place", event)
		}
		text = rest
		var e streamEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Type != name {
			t.Fatalf("%q is no event: %v", event, err)
		}
		if name == "ping" {
			continue
		}
		if (m == nil) != (name == "message_start") {
			t.Fatalf("%q is not in its place", event)
		}
		m, done = e.apply(t, m), name == "message_stop"
	}
	if !done {
		return nil
	}
	for _, b := range m.Content {
		if !b.stopped {
			t.Fatalf("%+v has no end", b)
		}
	}
	return m
}

type streamEvent struct {
	Type    string
	Index   int
	Message *message
	Block   *block `json:"content_block"`
	Usage   usage
	Delta   struct {
		Type, Text, Thinking, Signature string
		JSON                            string  `json:"partial_json"`
		StopReason                      *string `json:"stop_reason"`
		StopSequence                    *string `json:"stop_sequence"`
	}
}

func (e *streamEvent) apply(t *testing.T, m *message) *message {
	t.Helper()
	switch e.Type {
	case "message_start":
		return e.Message
	case "content_block_start":
		if e.Index != len(m.Content) || e.Index > 0 && !m.Content[e.Index-1].stopped {
			t.Fatalf("%+v begins a block at the wrong time", e)
		}
		m.Content = append(m.Content, e.Block)
	case "content_block_delta", "content_block_stop":
		if e.Index != len(m.Content)-1 || m.Content[e.Index].stopped {
			t.Fatalf("%+v belongs to no open block", e)
		}
		e.delta(t, m.Content[e.Index])
	case "message_delta":
		m.StopReason, m.StopSequence, m.Usage = e.Delta.StopReason, e.Delta.StopSequence, e.Usage
	case "message_stop":
	default:
		t.Fatalf("unknown event %+v", e)
	}
	return m
}

func (e *streamEvent) delta(t *testing.T, b *block) {
	t.Helper()
	if e.Type == "content_block_stop" {
		b.stopped = true
		if b.Type == "tool_use" && b.json != "" {
			b.Input = json.RawMessage(b.json)
		}
		return
	}
	want := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}[e.Delta.Type]
	if want != b.Type {
		t.Fatalf("%+v in the block %+v", e, b)
	}
	b.Text += e.Delta.Text
	b.Thinking += e.Delta.Thinking
	b.Signature += e.Delta.Signature
	b.json += e.Delta.JSON
}

// A stream says the same as the whole answer with the same content.
func TestStream(t *testing.T) {
	show := messages.Asked{ShowThinking: true, Stops: []string{"END"}}
	for name, c := range map[string]struct {
		asked         messages.Asked
		chunks        []string
		whole, finish string
	}{
		"text":             {show, []string{chunk(`"role":"assistant","content":""`, "null"), chunk(`"content":"he"`, "null"), chunk(`"content":"l\n"`, "null"), chunk(``, `"stop"`), `{"choices":[],"usage":{"prompt_tokens":1}}`}, `"content":"hel\n"`, `"stop"`},
		"at once":          {show, []string{chunk(`"content":"hi"`, `"length"`)}, `"content":"hi"`, `"length"`},
		"stop sequence":    {show, []string{chunk(`"content":"hi"`, `null`), chunk(``, `"stop","stop_reason":"END"`)}, `"content":"hi"`, `"stop","stop_reason":"END"`},
		"thinking":         {show, []string{chunk(`"reasoning_content":"h"`, "null"), chunk(`"reasoning_content":"m","content":null`, "null"), chunk(`"content":"a"`, "null"), chunk(`"content":""`, `"stop"`)}, `"reasoning":"hm","content":"a"`, `"stop"`},
		"hidden thinking":  {messages.Asked{}, []string{chunk(`"reasoning":"h"`, "null"), chunk(`"content":"a"`, "null"), chunk(``, `"stop"`)}, `"content":"a"`, `"stop"`},
		"tools":            {show, []string{chunk(`"content":"so"`, "null"), chunk(`"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"f","arguments":""}}]`, "null"), chunk(`"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]`, "null"), chunk(`"tool_calls":[{"index":0,"id":null,"function":{"name":null,"arguments":" 1}"}}]`, "null"), chunk(`"tool_calls":[{"index":1,"id":"t2","function":{"name":"g","arguments":"{}"}}]`, "null"), chunk(``, `"tool_calls"`)}, `"content":"so","tool_calls":[{"id":"t1","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"t2","function":{"name":"g","arguments":"{}"}}]`, `"tool_calls"`},
		"tools at once":    {show, []string{chunk(`"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"t2","function":{"name":"g","arguments":{"b":2}}}]`, `"stop"`)}, `"tool_calls":[{"id":"t1","function":{"name":"f","arguments":"{}"}},{"id":"t2","function":{"name":"g","arguments":{"b":2}}}]`, `"stop"`},
		"tools of index 0": {show, []string{chunk(`"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"{}"}}]`, "null"), chunk(`"tool_calls":[{"index":0,"id":"t2","function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`)}, `"tool_calls":[{"id":"t1","function":{"name":"f","arguments":"{}"}},{"id":"t2","function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`},
		"repeated names":   {show, []string{chunk(`"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"{"}}]`, "null"), chunk(`"tool_calls":[{"index":0,"id":"t1","function":{"name":"f","arguments":"}"}}]`, `"tool_calls"`)}, `"tool_calls":[{"id":"t1","function":{"name":"f","arguments":"{}"}}]`, `"tool_calls"`},
		"refusal":          {show, []string{chunk(`"refusal":"n"`, "null"), chunk(`"refusal":"o"`, "null"), chunk(``, `"stop"`)}, `"refusal":"no"`, `"stop"`},
		"other choices":    {show, []string{`{"id":"chatcmpl-1","model":"m","choices":[{"index":1,"delta":{"content":"x"}},{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`}, `"content":"a"`, `"stop"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := accumulate(t, streamed(t, c.asked, c.chunks...))
			if m == nil {
				t.Fatal("the stream has no end")
			}
			checkMessage(t, m)
			var want message
			if err := json.Unmarshal([]byte(answered(t, chatAnswer(c.whole, c.finish), c.asked)), &want); err != nil {
				t.Fatal(err)
			}
			for _, b := range m.Content {
				b.json, b.stopped = "", false
			}
			got, _ := json.Marshal(m)
			whole, _ := json.Marshal(&want)
			sameJSON(t, string(got), string(whole))
		})
	}
}

// A client that does not see the thinking gets a sign of life for each piece.
func TestStreamPings(t *testing.T) {
	events := streamed(t, messages.Asked{}, chunk(`"reasoning":"h"`, "null"), chunk(`"reasoning":"m"`, "null"))
	if n := strings.Count(events, "event: ping\n"); n != 2 || strings.Contains(events, "thinking") {
		t.Fatalf("%d pings: %s", n, events)
	}
}

// A stream that has no form in Messages is broken, instead of complete without a part of it.
func TestStreamThatCannotGoOn(t *testing.T) {
	begun := chunk(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}},{"index":1,"id":"b","function":{"name":"g","arguments":"{"}}]`, "null")
	for _, chunks := range [][]string{
		{begun, chunk(`"tool_calls":[{"index":0,"function":{"arguments":"}"}}]`, "null")},
		{chunk(`"tool_calls":[{"index":0,"function":{"arguments":"}"}}]`, "null")},
		{`not JSON`}, {`{"choices":[`}, {`[]`}, {`"x"`},
	} {
		s := messages.NewStream(&messages.Asked{})
		ok := true
		for _, c := range chunks {
			if ok {
				_, ok = s.Event(nil, []byte(c))
			}
		}
		if ok {
			t.Errorf("%q went on", chunks)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add(chunk(`"content":"a"`, "null")+"\n"+chunk(`"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]`, `"stop"`), true)
	f.Add(chunk(`"reasoning":"a"`, "null")+"\n"+chunk(`"refusal":"b","content":[{"text":"x"}]`, `"stop","matched_stop":"x"`), false)
	f.Fuzz(func(t *testing.T, text string, show bool) {
		s := messages.NewStream(&messages.Asked{ShowThinking: show, Stops: []string{"x"}})
		var out []byte
		for data := range strings.SplitSeq(text, "\n") {
			var ok bool
			if out, ok = s.Event(out, []byte(data)); !ok {
				if accumulateCut(t, string(out)) {
					t.Fatalf("%q is complete: %s", text, out)
				}
				return
			}
		}
		if accumulateCut(t, string(out)) {
			t.Fatalf("%q is complete before its end: %s", text, out)
		}
		m := accumulate(t, string(s.End(out, openai.Usage{Completion: 1})))
		if m == nil || m.StopReason == nil || m.Usage.Output != 1 {
			t.Fatalf("%q became %+v", text, m)
		}
	})
}

// accumulateCut reports whether events that were cut look complete.
func accumulateCut(t *testing.T, text string) bool {
	return accumulate(t, text) != nil
}
