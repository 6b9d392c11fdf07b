package simengine

import "strings"

// generateBody is a request of SGLang's /generate (GenerateReqInput in python/sglang/srt/managers/io_struct.py). It names no model.
type generateBody struct {
	Model    string `json:"model"` // no field of SGLang, which ignores it
	Text     any    `json:"text"`
	InputIDs any    `json:"input_ids"`
	Stream   bool   `json:"stream"`
	Sampling struct {
		MaxNewTokens *int `json:"max_new_tokens"`
	} `json:"sampling_params"`
}

func (b *generateBody) call() (*call, error) {
	c := &call{model: b.Model, stream: b.Stream}
	c.prompt.add(b.Text)
	c.prompt.add(b.InputIDs)
	return c, c.wanted("max_new_tokens", b.Sampling.MaxNewTokens)
}

// sglangGenerate is /generate. Each event of a stream has the whole text until then.
func sglangGenerate(e *Engine, c *call) answer {
	t := e.generate(c)
	reason := object{"type": "stop", "matched": 2}
	if t.cut {
		reason = object{"type": "length", "length": len(t.tokens)}
	}
	piece := func(said string, tokens int, reason any) []byte {
		return marshal(object{"text": said, "output_ids": []int{}, "meta_info": object{"id": c.id, "finish_reason": reason,
			"prompt_tokens": c.prompt.tokens, "completion_tokens": tokens, "cached_tokens": c.cachedTokens(), "e2e_latency": 0.1}})
	}
	a := t.answer(func() []byte { return piece(t.String(), len(t.tokens), reason) })
	a.streamed = c.stream
	a.token = func(dst []byte, i int) []byte {
		said := t.tokens[i]
		if !t.big {
			said = strings.Join(t.tokens[:i+1], "")
		}
		if i == len(t.tokens)-1 {
			return event(dst, piece(said, i+1, reason))
		}
		return event(dst, piece(said, i+1, nil))
	}
	return a
}

// sglangRerank is /v1/rerank: a list, and not an object as elsewhere.
func sglangRerank(_ *Engine, c *call) answer {
	ranks := []object{}
	for i, text := range c.options.documents {
		ranks = append(ranks, object{"score": 1 / float64(i+1), "document": text, "index": i,
			"meta_info": object{"id": c.id, "prompt_tokens": c.prompt.tokens, "e2e_latency": 0.1}})
	}
	return wholeAnswer(ranks)
}

// sglangScore is /v1/score: for each item the probabilities of the labels, of which there are two here.
func sglangScore(_ *Engine, c *call) answer {
	scores := [][]float64{}
	for range c.options.documents {
		scores = append(scores, []float64{0.75, 0.25})
	}
	return wholeAnswer(object{"object": "scoring", "model": c.model, "scores": scores, "usage": c.usageOf(0)})
}
