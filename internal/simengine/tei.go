package simengine

import "strconv"

// teiBody is a request of TEI's own paths (router/src/http/types.rs). It names no model.
type teiBody struct {
	Model      string `json:"model"` // no field of TEI, which ignores it
	Inputs     any    `json:"inputs"`
	Query      string `json:"query"`
	Texts      []any  `json:"texts"`
	IDs        any    `json:"ids"`
	Dimensions int    `json:"dimensions"`
}

func (b *teiBody) call() (*call, error) {
	c := &call{model: b.Model, inputs: inputsOf(b.Inputs), options: options{dimensions: b.Dimensions, documents: textsOf(b.Texts)}}
	_, c.options.batched = b.Inputs.([]any)
	c.options.tokens = numbersOf(b.IDs)
	for _, v := range []any{b.Inputs, b.Texts, b.Query} {
		c.prompt.add(v)
	}
	return c, nil
}

// teiAnswer has its usage in the head only.
func teiAnswer(c *call, v any) answer {
	a := wholeAnswer(v)
	a.header = [][2]string{{"X-Compute-Type", "cpu"}, {"X-Compute-Tokens", strconv.Itoa(c.prompt.tokens)}}
	return a
}

// teiEmbed is /embed.
func teiEmbed(_ *Engine, c *call) answer {
	vectors := [][]float32{}
	for _, in := range c.inputs {
		vectors = append(vectors, vector(in.last, c.vectorLength()))
	}
	return teiAnswer(c, vectors)
}

// teiRerank is /rerank: a list, and not an object as elsewhere.
func teiRerank(_ *Engine, c *call) answer {
	return teiAnswer(c, rankList(c))
}

// rankList are the scores of a request's documents: earlier ones have a higher score.
func rankList(c *call) []object {
	ranks := []object{}
	for i := range c.options.documents {
		ranks = append(ranks, object{"index": i, "score": 1 / float64(i+1)})
	}
	return ranks
}

// teiPredict is /predict: the classes of one input, or of each of several.
func teiPredict(_ *Engine, c *call) answer {
	classes := []object{{"score": 0.75, "label": "LABEL_0"}, {"score": 0.25, "label": "LABEL_1"}}
	if !c.options.batched {
		return teiAnswer(c, classes)
	}
	all := [][]object{}
	for range c.inputs {
		all = append(all, classes)
	}
	return teiAnswer(c, all)
}

// routerTokenize is /tokenize of TEI, a list for each input, and of TGI, the list of the only one.
func routerTokenize(e *Engine, c *call) answer {
	lists := [][]object{}
	for _, in := range c.inputs {
		list, at := []object{}, 0
		for _, word := range wordsOf(in.last) {
			list = append(list, object{"id": e.lexicon.number(word), "text": word, "special": false, "start": at, "stop": at + len(word)})
			at += len(word)
		}
		lists = append(lists, list)
	}
	if e.c.Kind == "tgi" {
		return wholeAnswer(lists[0])
	}
	return wholeAnswer(lists)
}

// chatTokenize is /chat_tokenize of TGI, for a conversation.
func chatTokenize(_ *Engine, c *call) answer {
	list := make([]object, c.prompt.tokens)
	for i := range list {
		list[i] = object{"id": i, "text": "", "start": 0, "stop": 0}
	}
	return wholeAnswer(object{"tokenize_response": list, "templated_text": c.prompt.last})
}

// teiDecode is /decode.
func teiDecode(e *Engine, c *call) answer {
	return wholeAnswer([]string{e.lexicon.text(c.options.tokens)})
}
