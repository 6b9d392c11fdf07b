package simengine

import "strconv"

// usage has the field names of chat and completions.
type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	Details          struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (c *call) usageOf(completion int) *usage {
	u := &usage{PromptTokens: c.prompt.tokens, CompletionTokens: completion, TotalTokens: c.prompt.tokens + completion}
	u.Details.CachedTokens = c.cachedTokens()
	return u
}

// completed is an answer of chat or completions, or a piece of one.
type completed[Choice any] struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type chatChoice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *chatMessage `json:"delta,omitempty"`
	Logprobs     any          `json:"logprobs"`
	FinishReason any          `json:"finish_reason"` // a string or nil
}

type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	Refusal any     `json:"refusal,omitempty"`
}

// chat is /v1/chat/completions.
func chat(e *Engine, c *call) answer {
	if c.tool != nil {
		return chatCall(e, c)
	}
	t := e.generate(c)
	base := completed[chatChoice]{ID: "chatcmpl-" + c.id, Created: e.now(), Model: c.model, Usage: c.usageOf(len(t.tokens))}
	chunk := base
	chunk.Object, chunk.Usage = "chat.completion.chunk", nil
	role := chunk
	empty := ""
	role.Choices = []chatChoice{{Delta: &chatMessage{Role: "assistant", Content: &empty}}}
	finish := chunk
	finish.Choices = []chatChoice{{Delta: &chatMessage{}, FinishReason: t.reason()}}
	prefix := "data: {\"id\":" + quoted(chunk.ID) + ",\"object\":\"chat.completion.chunk\",\"created\":" +
		strconv.FormatInt(chunk.Created, 10) + ",\"model\":" + quoted(c.model) +
		",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
	first := event(nil, marshal(role))

	a := t.answer(func() []byte { // built only here, since a stream of wide tokens never needs the whole
		whole, said := base, t.String()
		whole.Object = "chat.completion"
		whole.Choices = []chatChoice{{Message: &chatMessage{Role: "assistant", Content: &said}, FinishReason: t.reason()}}
		return marshal(whole)
	})
	a.token = func(dst []byte, i int) []byte {
		if i == 0 {
			dst = append(dst, first...)
		}
		dst = appendJSON(append(dst, prefix...), t.tokens[i])
		return append(dst, "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
	}
	a.tail = event(nil, marshal(finish))
	if c.usage {
		last := base
		last.Object, last.Choices = chunk.Object, []chatChoice{}
		a.tail = event(a.tail, marshal(last))
	}
	a.streamed = c.stream
	return a
}

type completionChoice struct {
	Index        int    `json:"index"`
	Text         string `json:"text"`
	Logprobs     any    `json:"logprobs"`
	FinishReason any    `json:"finish_reason"` // a string or nil
}

// completion is /v1/completions.
func completion(e *Engine, c *call) answer {
	t := e.generate(c)
	base := completed[completionChoice]{ID: "cmpl-" + c.id, Object: "text_completion", Created: e.now(), Model: c.model}
	whole := base
	whole.Choices = []completionChoice{{Text: t.String(), FinishReason: t.reason()}}
	whole.Usage = c.usageOf(len(t.tokens))
	finish := base
	finish.Choices = []completionChoice{{FinishReason: t.reason()}}
	prefix := "data: {\"id\":" + quoted(base.ID) + ",\"object\":\"text_completion\",\"created\":" +
		strconv.FormatInt(base.Created, 10) + ",\"model\":" + quoted(c.model) + ",\"choices\":[{\"index\":0,\"text\":"

	a := t.answer(func() []byte { return marshal(whole) })
	a.token = func(dst []byte, i int) []byte {
		dst = appendJSON(append(dst, prefix...), t.tokens[i])
		return append(dst, ",\"logprobs\":null,\"finish_reason\":null}]}\n\n"...)
	}
	a.tail = event(nil, marshal(finish))
	if c.usage {
		last := base
		last.Choices, last.Usage = []completionChoice{}, whole.Usage
		a.tail = event(a.tail, marshal(last))
	}
	a.streamed = c.stream
	return a
}

// answer is the frame of an answer that sends t in events and ends with [DONE].
func (t text) answer(whole func() []byte) answer {
	return answer{
		tokens: len(t.tokens), said: t.tokens, big: t.big, wholeType: "application/json", whole: whole,
		streamType: eventStream, end: []byte(doneEvent),
		fail: func(dst []byte, f failPoint) []byte { return event(dst, f.err.body()) }, afterFail: []byte(doneEvent),
	}
}

func event(dst, data []byte) []byte {
	dst = append(append(dst, "data: "...), data...)
	return append(dst, "\n\n"...)
}

func quoted(s string) string { return string(appendJSON(nil, s)) }
