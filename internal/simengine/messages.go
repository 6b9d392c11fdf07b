package simengine

// messagesBody is a request of Anthropic's Messages API, or of its count of tokens.
type messagesBody struct {
	Model     string `json:"model"`
	MaxTokens *int   `json:"max_tokens"`
	System    any    `json:"system"`
	Messages  any    `json:"messages"`
	Stream    bool   `json:"stream"`
	Tools     []any  `json:"tools"`
}

func (b *messagesBody) call() (*call, error) {
	c := &call{model: b.Model, stream: b.Stream}
	if b.Messages == nil {
		return c, badRequest("messages", "messages: field required")
	}
	c.prompt.add(b.System)
	c.prompt.add(b.Messages)
	c.tool = toolOf(b.Tools, c.prompt.last)
	return c, c.wanted("max_tokens", b.MaxTokens)
}

// fullMessagesBody is messagesBody where the engine insists on max_tokens, as Anthropic does.
type fullMessagesBody struct{ messagesBody }

func (b *fullMessagesBody) call() (*call, error) {
	if b.MaxTokens == nil {
		return &call{model: b.Model}, badRequest("max_tokens", "max_tokens: field required")
	}
	return b.messagesBody.call()
}

// messagesUsage is the usage of one kind of engine: what it says when the message starts, in the delta at its end, and in an answer that is not
// streamed.
type messagesUsage struct{ start, delta, whole object }

// All count the input as Anthropic does, without what was read from the cache, but say it at other places.
//
//   - vLLM: the whole prompt in the start, where the cache is not known yet (vllm/entrypoints/anthropic/serving.py, since vllm-project/vllm#40912).
//   - SGLang: nothing in the start (python/sglang/srt/entrypoints/anthropic/response_conversion.py; before 2026-07 the input had the cached ones too).
//   - llama.cpp: the input in the start, and not in the delta (tools/server/server-task.cpp).
//   - Ollama: an estimate in the start, and nothing of the cache (anthropic/anthropic.go).
func (c *call) messagesUsageOf(kind string, output int) messagesUsage {
	all, cached := c.prompt.tokens, c.cachedTokens()
	whole := object{"input_tokens": all - cached, "output_tokens": output}
	u := messagesUsage{start: object{"input_tokens": all, "output_tokens": 0}, delta: whole, whole: whole}
	if cached > 0 {
		whole["cache_read_input_tokens"] = cached
	}
	switch kind {
	case "sglang":
		u.start["input_tokens"] = 0
	case "llamacpp":
		u.start = object{"input_tokens": all - cached, "cache_read_input_tokens": cached, "output_tokens": 0}
		u.delta = object{"output_tokens": output}
	case "ollama":
		u.start["input_tokens"] = max(all-1, 1)
		whole["input_tokens"] = all
		delete(whole, "cache_read_input_tokens")
	}
	return u
}

// messages is /v1/messages.
func messages(e *Engine, c *call) answer {
	t, block := c.messageBlock(e)
	u := c.messagesUsageOf(e.c.Kind, len(t.tokens))
	message := func(content []object, reason any, usage object) object {
		return object{"id": "msg_" + c.id, "type": "message", "role": "assistant", "model": c.model, "content": content,
			"stop_reason": reason, "stop_sequence": nil, "usage": usage}
	}
	a := t.answer(func() []byte { return marshal(message([]object{block.whole()}, block.reason, u.whole)) })
	a.streamed = c.stream
	a.open = messagesEvent(nil, "message_start", object{"message": message([]object{}, nil, u.start)})
	first := messagesEvent(nil, "content_block_start", object{"index": 0, "content_block": block.empty})
	a.token = func(dst []byte, i int) []byte {
		if i == 0 {
			dst = append(dst, first...)
		}
		return block.delta(dst, i)
	}
	a.tail = messagesEvent(nil, "content_block_stop", object{"index": 0})
	a.tail = messagesEvent(a.tail, "message_delta", object{"delta": object{"stop_reason": block.reason, "stop_sequence": nil}, "usage": u.delta})
	a.end = messagesEvent(nil, "message_stop", object{})
	e.messagesFailure(&a)
	return a
}

// messageBlock returns what the engine says to a request, in tokens and as a block of a message.
func (c *call) messageBlock(e *Engine) (text, messageBlock) {
	if c.tool != nil {
		return c.tool.text(), c.tool.block(c.id)
	}
	t := e.generate(c)
	block := messageBlock{empty: object{"type": "text", "text": ""}, reason: "end_turn"}
	block.whole = func() object { return object{"type": "text", "text": t.String()} }
	if t.cut {
		block.reason = "max_tokens"
	}
	block.delta = func(dst []byte, p int) []byte {
		dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":"...)
		return append(appendJSON(dst, t.tokens[p]), "}}\n\n"...)
	}
	return t, block
}

// messagesFailure sets what the engine's kind sends when it fails in mid-stream: SGLang ends the message nevertheless, and Ollama says nothing.
func (e *Engine) messagesFailure(a *answer) {
	w := messagesWords
	a.afterFail = nil
	switch e.c.Kind {
	case "ollama":
		a.fail, a.mute = nil, true
		return
	case "sglang":
		a.afterFail = append(append([]byte{}, a.tail...), a.end...)
	case "llamacpp":
		w = llamaWords
	case "vllm":
		w = vllmMessagesWords
	}
	a.fail = func(dst []byte, f failPoint) []byte { return namedData(dst, "error", second(w(f.err))) }
}

// messagesEvent appends an event that has its name as its type too.
func messagesEvent(dst []byte, name string, data object) []byte {
	data["type"] = name
	return namedData(dst, name, marshal(data))
}

// countMessages is /v1/messages/count_tokens.
func countMessages(_ *Engine, c *call) answer {
	return wholeAnswer(object{"input_tokens": c.prompt.tokens})
}

// wholeAnswer is an answer that is never streamed and takes the time of its prompt only.
func wholeAnswer(v any) answer {
	return answer{wholeType: "application/json", whole: func() []byte { return marshal(v) }}
}
