package openai

import (
	"math"

	"colonnade/internal/ascii"
)

// counted is a number that a field of a body states, or of its elements; 0 if there is no such field.
type counted struct {
	n     int
	field string
}

// Outputs returns how many completions the request asks for, or how many inputs it has to embed or documents to rank: at least 1.
func (b *Body) Outputs() float64 { return float64(max(b.choices.n, 1)) * float64(max(b.prompts.n, 1)) }

// StreamParts returns how many completions a stream of llama.cpp's own API has.
func (b *Body) StreamParts() StreamParts {
	prompts := 1.0
	if b.separate {
		prompts = float64(max(b.prompts.n, 1))
	}
	return StreamParts{AtLeast: uint32(min(prompts, math.MaxUint32)), AtMost: uint32(min(prompts*float64(max(b.choices.n, 1)), math.MaxUint32))}
}

// Limits bound what one request may ask of an engine.
type Limits struct {
	Completions int // the larger of n and best_of, times the prompts
	Inputs      int // to embed, or documents to rank
}

// CheckCounts refuses a body that asks for more than the limits of a model.
func (b *Body) CheckCounts(l Limits, model string) *Error {
	if !b.completions && b.prompts.n > l.Inputs {
		return InvalidRequest(b.prompts.field, "%q has %d elements: one request may have at most %d (max_inputs of the model %q); send several requests",
			b.prompts.field, b.prompts.n, l.Inputs, Cut(model))
	}
	limit := l.Completions
	switch choices, prompts := max(b.choices.n, 1), max(b.prompts.n, 1); {
	case choices > limit:
		return InvalidRequest(b.choices.field, "%q is %d: one request may ask for at most %d completions (max_completions of the model %q)",
			b.choices.field, choices, limit, Cut(model))
	case !b.completions:
	case prompts > limit:
		return InvalidRequest("prompt", "\"prompt\" has %d prompts: one request may ask for at most %d completions (max_completions of the model %q); send several requests",
			prompts, limit, Cut(model))
	case choices*prompts > limit:
		return InvalidRequest("prompt", "\"prompt\" has %d prompts and %q is %d, which makes %d completions: one request may ask for at most %d (max_completions of the model %q); send several requests",
			prompts, b.choices.field, choices, choices*prompts, limit, Cut(model))
	}
	return nil
}

// choices reads a number of completions; the largest counts. Other spellings of numbers, which some engines take for one, are refused:
// a larger number than the one seen here must not reach an engine.
func (p *peeker) choices(name string) bool {
	if p.at("null") {
		return p.scalar()
	}
	raw, ok := p.value()
	if !ok {
		return false
	}
	if err := p.body.addChoices(name, raw); err != nil {
		return p.refuse(err)
	}
	return true
}

func (b *Body) addChoices(name string, raw []byte) *Error {
	n, ok := ascii.ParseUint(raw)
	if !ok {
		return InvalidRequest(name, "%q must be a whole number of at most 15 digits, without a sign, a point, an exponent or quotes", name)
	}
	if n > b.choices.n {
		b.choices = counted{n, name}
	}
	return nil
}

// prompts counts what a field holds, if it is one of the API: texts and token lists each, and a single list of tokens as one.
func (p *peeker) prompts(f field) bool {
	if !p.api.counts(f) || p.space() != '[' {
		return p.skip()
	}
	n, tokens := 0, false
	for more := p.firstElement(); more; more = p.nextElement() {
		c := p.space()
		if c == '"' || c == '[' || c == '{' {
			n++
		}
		tokens = tokens || c == '-' || '0' <= c && c <= '9'
		if !p.skip() {
			return false
		}
	}
	if p.api == LlamaCompletions && tokens {
		n = min(n, 1) // with a token among them, the texts are parts of one prompt
	}
	if p.api != Score {
		n += p.body.prompts.n
	}
	if n >= p.body.prompts.n { // of two lists whose elements are scored against each other, the longer counts
		p.body.prompts = counted{n, countName(f)}
	}
	return p.fault == noFault
}

// counts reports whether the elements of a field are prompts, inputs or documents of this API.
func (a API) counts(f field) bool {
	switch a {
	case Completions, Infill, LlamaCompletions:
		return f == fieldPrompt
	case Embeddings:
		return f == fieldInput || f == fieldInputs || f == fieldContent
	case Rerank:
		return f == fieldDocuments || f == fieldTexts
	case Tokenize:
		return f == fieldPrompt || f == fieldInputs || f == fieldContent
	case Score:
		return f.isNative() || f == fieldDocuments
	case Classify, Pooling, OllamaEmbed:
		return f == fieldInput || f == fieldInputs || f == fieldText
	}
	return false
}

func countName(f field) string {
	names := [...]string{
		fieldN: "n", fieldBestOf: "best_of", fieldNCmpl: "n_cmpl", fieldPrompt: "prompt", fieldInput: "input", fieldInputs: "inputs", fieldContent: "content",
		fieldDocuments: "documents", fieldTexts: "texts", fieldText1: "text_1", fieldText2: "text_2", fieldData1: "data_1", fieldData2: "data_2",
		fieldQueries: "queries", fieldItems: "items", fieldText: "text",
	}
	return names[f]
}
