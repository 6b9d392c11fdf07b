package messages

import (
	"bytes"
	"strconv"

	"colonnade/openai"
)

// StopReason is what becomes of a chat answer's finish_reason.
type StopReason struct {
	Finish string // of chat, or of an engine; "" = none of the others
	Stop   string // of Messages
	Note   string // for the documentation
}

// StopReasons returns the table of reasons for which an answer ends.
func StopReasons() []StopReason { return stopReasons }

var stopReasons = []StopReason{
	{"stop", "end_turn", "`tool_use` if a tool is called; `stop_sequence` if the engine says which of the request's sequences it has found (`stop_reason` of vLLM, `matched_stop` of SGLang); `refusal` if there is a `refusal`"},
	{"length", "max_tokens", ""},
	{"tool_calls", "tool_use", ""},
	{"function_call", "tool_use", ""},
	{"content_filter", "refusal", ""},
	{"stop_sequence", "stop_sequence", "TGI's; `stop_sequence` names it if the request has only one"},
	{"", "end_turn", "also if there is none; with the exceptions of `stop`"},
}

// part is the message of a choice, or the delta of a chunk: raw values.
type part struct {
	content, reasoning, refusal, calls []byte
}

// read passes a message or a delta.
func (p *part) read(j *openai.JSON) {
	if j.Kind() != '{' {
		j.Skip()
		return
	}
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		switch string(key) {
		case "content":
			p.content = j.Value()
		case "reasoning_content", "reasoning": // DeepSeek's name, and OpenRouter's; vLLM has sent both
			p.reasoning = orElse(p.reasoning, j.Value())
		case "refusal":
			p.refusal = j.Value()
		case "tool_calls":
			p.calls = j.Value()
		default:
			j.Skip()
		}
	}
}

// orElse returns the first of two strings that is one and is not empty.
func orElse(first, second []byte) []byte {
	if isText(first) {
		return first
	}
	return second
}

// isText reports whether a raw value is a string that is not empty.
func isText(raw []byte) bool { return len(raw) > 2 && raw[0] == '"' }

// choice is the first choice of an answer or a chunk.
type choice struct {
	index   []byte
	part    part
	finish  []byte // finish_reason
	stopped []byte // stop_reason of vLLM, or matched_stop of SGLang
}

// read passes a choice.
func (c *choice) read(j *openai.JSON) {
	if j.Kind() != '{' {
		j.Skip()
		return
	}
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		switch string(key) {
		case "delta", "message":
			c.part.read(j)
		case "finish_reason":
			c.finish = j.Value()
		case "stop_reason", "matched_stop":
			c.stopped = orElse(c.stopped, j.Value())
		case "index":
			c.index = j.Value()
		default:
			j.Skip()
		}
	}
}

// first reads the choice of index 0 from an array of choices, and reports whether it is there.
func (c *choice) first(j *openai.JSON) (found bool) {
	if j.Kind() != '[' {
		j.Skip()
		return false
	}
	for more := j.FirstElement(); more; more = j.NextElement() {
		var next choice
		if next.read(j); len(next.index) == 0 || string(next.index) == "0" {
			*c, found = next, true
		}
	}
	return found
}

// call is a call of a tool: raw values.
type call struct{ index, id, name, arguments []byte }

func (c *call) read(j *openai.JSON) {
	if j.Kind() != '{' {
		j.Skip()
		return
	}
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		switch {
		case string(key) == "index":
			c.index = j.Value()
		case string(key) == "id":
			c.id = j.Value()
		case string(key) == "function" && j.Kind() == '{':
			c.function(j)
		default:
			j.Skip()
		}
	}
}

func (c *call) function(j *openai.JSON) {
	for key, ok := j.FirstMember(); ok; key, ok = j.NextMember() {
		switch string(key) {
		case "name":
			c.name = j.Value()
		case "arguments":
			c.arguments = j.Value()
		default:
			j.Skip()
		}
	}
}

// eachCall calls use for each call of a tool.
func eachCall(raw []byte, use func(c *call)) {
	if len(raw) == 0 || raw[0] != '[' {
		return
	}
	j := openai.NewJSON(raw, true)
	for more := j.FirstElement(); more; more = j.NextElement() {
		var c call
		c.read(&j)
		use(&c)
	}
}

// ending is why an answer has ended.
type ending struct {
	finish  string
	stopped []byte // the sequence, as text
	refused bool
	called  bool // a tool
}

// note takes what a choice says.
func (e *ending) note(c *choice) {
	if isText(c.finish) {
		e.finish = string(openai.Unescaped(c.finish))
	}
	if isText(c.stopped) {
		e.stopped = openai.Unescaped(c.stopped)
	}
	e.refused = e.refused || isText(c.part.refusal)
}

// append appends the members stop_reason and stop_sequence.
func (e *ending) append(dst []byte, a *Asked) []byte {
	reason, sequence := e.reason(a)
	dst = append(append(dst, `"stop_reason":"`...), reason...)
	dst = append(dst, `","stop_sequence":`...)
	if sequence == "" {
		return append(dst, "null"...)
	}
	return openai.AppendString(dst, sequence)
}

func (e *ending) reason(a *Asked) (reason, sequence string) {
	reason = "end_turn"
	for _, r := range stopReasons {
		if r.Finish == e.finish {
			reason = r.Stop
			break
		}
	}
	switch {
	case reason == "stop_sequence":
		if len(a.Stops) == 1 {
			sequence = a.Stops[0]
		}
	case reason != "end_turn":
	case e.called:
		reason = "tool_use"
	case e.refused:
		reason = "refusal"
	}
	if reason == "end_turn" || reason == "stop_sequence" {
		for _, stop := range a.Stops {
			if len(stop) > 0 && stop == string(e.stopped) {
				return "stop_sequence", stop
			}
		}
	}
	return reason, sequence
}

// appendUsage appends the object usage.
func appendUsage(dst []byte, u openai.Usage) []byte {
	for _, count := range []struct {
		name string
		n    int
	}{
		{`{"input_tokens":`, max(u.Prompt-u.Cached, 0)},
		{`,"cache_creation_input_tokens":`, 0},
		{`,"cache_read_input_tokens":`, min(u.Cached, u.Prompt)},
		{`,"output_tokens":`, u.Completion},
	} {
		dst = strconv.AppendInt(append(dst, count.name...), int64(count.n), 10)
	}
	return append(dst, '}')
}

// appendID appends the id of a message as a JSON string: that of the chat answer, with Anthropic's prefix.
func appendID(dst, raw []byte) []byte {
	inside, _ := openai.Unquoted(raw)
	inside = bytes.TrimPrefix(inside, []byte("chatcmpl-"))
	dst = append(dst, `"msg_`...)
	if len(inside) == 0 {
		inside = []byte("0")
	}
	return append(append(dst, inside...), '"')
}

// appendStringOr appends a raw value if it is a string that is not empty, else another text as one.
func appendStringOr(dst, raw []byte, other string) []byte {
	if isText(raw) {
		return append(dst, raw...)
	}
	return openai.AppendString(dst, other)
}
