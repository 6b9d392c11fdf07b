package simengine

import "cmp"

// scoreBody is a request of /score, /classify and /pooling of vLLM, and of /v1/score and /v1/classify of SGLang.
type scoreBody struct {
	Model    string `json:"model"`
	Text1    any    `json:"text_1"`
	Text2    any    `json:"text_2"`
	Queries  any    `json:"queries"`
	Docs     any    `json:"documents"`
	Input    any    `json:"input"`
	Messages any    `json:"messages"`
	Query    any    `json:"query"` // SGLang, as are the items
	Items    any    `json:"items"`
}

func (b *scoreBody) call() (*call, error) {
	c := &call{model: b.Model, inputs: inputsOf(b.Input)}
	for _, v := range []any{b.Text2, b.Docs, b.Items} {
		if list, ok := v.([]any); ok {
			c.options.documents = textsOf(list)
		} else if v != nil {
			c.options.documents = textsOf([]any{v})
		}
	}
	for _, v := range []any{b.Text2, b.Docs, b.Items, b.Messages, b.Input, b.Query, b.Queries, b.Text1} {
		c.prompt.add(v)
	}
	return c, nil
}

func (c *call) vectorLength() int { return min(cmp.Or(c.options.dimensions, dimensions), 1<<14) }

// vllmList is an answer of vLLM's paths for models that do not generate.
func vllmList(e *Engine, c *call, prefix string, data []object) answer {
	return wholeAnswer(object{"id": prefix + c.id, "object": "list", "created": e.now(), "model": c.model, "data": data, "usage": c.usageOf(0)})
}

// score is /score and /v1/score of vLLM: earlier texts score higher.
func score(e *Engine, c *call) answer {
	data := []object{}
	for i := range c.options.documents {
		data = append(data, object{"index": i, "object": "score", "score": 1 / float64(i+1)})
	}
	return vllmList(e, c, "score-", data)
}

// classify is /classify of vLLM and /v1/classify of SGLang: two classes.
func classify(e *Engine, c *call) answer {
	data := []object{}
	for i := range c.inputs {
		data = append(data, object{"index": i, "label": "LABEL_0", "probs": []float64{0.75, 0.25}, "num_classes": 2})
	}
	return vllmList(e, c, "classify-", data)
}

// pooling is /pooling of vLLM: a vector for each input.
func pooling(e *Engine, c *call) answer {
	data := []object{}
	for i, in := range c.inputs {
		data = append(data, object{"index": i, "object": "pooling", "data": vector(in.last, dimensions)})
	}
	return vllmList(e, c, "pool-", data)
}

// vllmRerank is /rerank of vLLM, which repeats the documents.
func vllmRerank(_ *Engine, c *call) answer {
	results := []object{}
	for i, text := range c.options.documents {
		results = append(results, object{"index": i, "document": object{"text": text}, "relevance_score": 1 / float64(i+1)})
	}
	return wholeAnswer(object{"id": "rerank-" + c.id, "model": c.model, "results": results,
		"usage": object{"prompt_tokens": c.prompt.tokens, "total_tokens": c.prompt.tokens}})
}
