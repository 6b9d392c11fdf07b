package simengine

// llamaBody is a request of llama.cpp's /completion and /infill (tools/server/README.md). It needs no model.
type llamaBody struct {
	Model    string `json:"model"`
	Prompt   any    `json:"prompt"`
	Prefix   string `json:"input_prefix"`
	Suffix   string `json:"input_suffix"`
	Extra    []any  `json:"input_extra"`
	Stream   bool   `json:"stream"`
	NPredict *int   `json:"n_predict"`
}

func (b *llamaBody) call() (*call, error) {
	c := &call{model: b.Model, stream: b.Stream}
	if n := b.NPredict; n != nil && *n > 0 { // less means no limit
		c.limit = *n
	}
	for _, v := range []any{b.Extra, b.Suffix, b.Prefix, b.Prompt} {
		if v != "" {
			c.prompt.add(v)
		}
	}
	return c, nil
}

// infillBody is llamaBody for /infill, which insists on what stands before and behind the gap.
type infillBody struct {
	llamaBody
	Suffix *string `json:"input_suffix"`
}

func (b *infillBody) call() (*call, error) {
	if b.Suffix == nil {
		return &call{model: b.Model}, badRequest("input_suffix", `"input_suffix" is required`)
	}
	b.llamaBody.Suffix = *b.Suffix
	return b.llamaBody.call()
}

// llamaCompletion is /completion and /infill. A stream ends with the event that has "stop", and with no other.
func llamaCompletion(e *Engine, c *call) answer {
	t := e.generate(c)
	n, reason := len(t.tokens), "eos"
	if t.cut {
		reason = "limit"
	}
	final := func(said string) []byte {
		return marshal(object{"index": 0, "content": said, "tokens": []int{}, "id_slot": 0, "stop": true, "model": c.model, "tokens_predicted": n,
			"tokens_evaluated": c.prompt.tokens, "generation_settings": object{}, "prompt": c.prompt.last, "has_new_line": false, "truncated": false,
			"stop_type": reason, "stopping_word": "", "tokens_cached": c.prompt.tokens + n, // what the slot holds now
			"timings": object{"cache_n": c.cachedTokens(), "prompt_n": c.prompt.tokens - c.cachedTokens(), "predicted_n": n}})
	}
	a := t.answer(func() []byte { return final(t.String()) })
	a.streamed, a.afterFail = c.stream, nil
	a.token = func(dst []byte, i int) []byte {
		return event(dst, marshal(object{"index": 0, "content": t.tokens[i], "tokens": []int{e.lexicon.number(t.tokens[i])}, "stop": false, "id_slot": 0,
			"tokens_predicted": i + 1, "tokens_evaluated": c.prompt.tokens}))
	}
	a.end = event(nil, final(""))
	a.fail = func(dst []byte, f failPoint) []byte { return event(dst, second(llamaWords(f.err))) }
	return a
}

// llamaRerank is /rerank and its other names.
func llamaRerank(_ *Engine, c *call) answer {
	results := []object{}
	for i := range c.options.documents {
		results = append(results, object{"index": i, "relevance_score": 1 / float64(i+1)})
	}
	return wholeAnswer(object{"model": c.model, "object": "list", "usage": object{"prompt_tokens": c.prompt.tokens, "total_tokens": c.prompt.tokens},
		"results": results})
}
