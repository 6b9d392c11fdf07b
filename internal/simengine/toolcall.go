package simengine

import (
	"encoding/json"
	"strings"
)

// callMark begins a prompt that is answered with a call of a tool, if the request has tools: the mark, the tool's name, and its arguments as JSON.
const callMark = "call:"

// toolCall is a call of a tool that a prompt asks for.
type toolCall struct {
	name      string
	arguments string // JSON
}

// toolOf returns the call that a prompt asks for; nil if it asks for none, or if there are no tools.
func toolOf(tools []any, prompt string) *toolCall {
	said, ok := strings.CutPrefix(prompt, callMark)
	if !ok || len(tools) == 0 {
		return nil
	}
	name, arguments, _ := strings.Cut(strings.TrimSpace(said), " ")
	if !json.Valid([]byte(arguments)) {
		arguments = "{}"
	}
	return &toolCall{name: name, arguments: arguments}
}

// text returns the arguments in two tokens, as engines that stream them have several.
func (t *toolCall) text() text {
	half := len(t.arguments) / 2
	return text{tokens: []string{t.arguments[:half], t.arguments[half:]}}
}

func (t *toolCall) object() json.RawMessage { return json.RawMessage(t.arguments) }

// chatCall is a call of a tool in /v1/chat/completions.
func chatCall(e *Engine, c *call) answer {
	t := c.tool.text()
	base := object{"id": "chatcmpl-" + c.id, "created": e.now(), "model": c.model}
	function := func(name, arguments string) []object {
		f := object{"arguments": arguments}
		if name == "" {
			return []object{{"index": 0, "function": f}}
		}
		f["name"] = name
		return []object{{"index": 0, "id": "call_" + c.id, "type": "function", "function": f}}
	}
	a := t.answer(func() []byte {
		message := object{"role": "assistant", "content": nil, "tool_calls": function(c.tool.name, c.tool.arguments)}
		return marshal(with(base, object{"object": "chat.completion", "usage": c.usageOf(len(t.tokens)),
			"choices": []object{{"index": 0, "message": message, "finish_reason": "tool_calls"}}}))
	})
	chunk := func(dst []byte, more object) []byte {
		return event(dst, marshal(with(base, object{"object": "chat.completion.chunk"}, more)))
	}
	delta := func(dst []byte, delta object, reason any) []byte {
		return chunk(dst, object{"choices": []object{{"index": 0, "delta": delta, "finish_reason": reason}}})
	}
	a.token = func(dst []byte, i int) []byte {
		if i == 0 {
			dst = delta(dst, object{"role": "assistant", "content": nil, "tool_calls": function(c.tool.name, "")}, nil)
		}
		return delta(dst, object{"tool_calls": function("", t.tokens[i])}, nil)
	}
	a.tail = delta(nil, object{}, "tool_calls")
	if c.usage {
		a.tail = chunk(a.tail, object{"choices": []object{}, "usage": c.usageOf(len(t.tokens))})
	}
	a.streamed = c.stream
	return a
}

// with returns the fields of several objects.
func with(all ...object) object {
	out := object{}
	for _, o := range all {
		for name, value := range o {
			out[name] = value
		}
	}
	return out
}

// messageBlock is the one block of content of an answer in Anthropic's form.
type messageBlock struct {
	empty  object                         // as it begins in a stream
	whole  func() object                  // as it stands in an answer that is not streamed
	delta  func(dst []byte, p int) []byte // appends the event of the p-th piece
	reason string                         // why the message ends
}

// block is a call of a tool in /v1/messages.
func (t *toolCall) block(id string) messageBlock {
	pieces := t.text().tokens
	block := func(input any) object {
		return object{"type": "tool_use", "id": "toolu_" + id, "name": t.name, "input": input}
	}
	return messageBlock{
		empty: block(object{}), whole: func() object { return block(t.object()) }, reason: "tool_use",
		delta: func(dst []byte, p int) []byte {
			return messagesEvent(dst, "content_block_delta", object{"index": 0, "delta": object{"type": "input_json_delta", "partial_json": pieces[p]}})
		},
	}
}

// ollamaMessage is a call of a tool in a message of /api/chat. A piece without text has none.
func (t *toolCall) ollamaMessage(id, said string) object {
	message := object{"role": "assistant", "content": ""}
	if said != "" {
		message["tool_calls"] = []object{{"id": "call_" + id, "function": object{"index": 0, "name": t.name, "arguments": t.object()}}}
	}
	return message
}
