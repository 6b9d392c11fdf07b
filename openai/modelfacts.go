package openai

import (
	"bytes"

	"colonnade/internal/ascii"
)

// ModelFact is what an engine says about a model.
type ModelFact struct {
	MaxModelLen int    `json:"max_model_len,omitempty"` // tokens of prompt and answer together; 0 = not said
	OwnedBy     string `json:"owned_by,omitempty"`
	// Longest is the longest MaxModelLen of several engines; -1 = not all of them have said theirs; 0 = none was asked.
	Longest int `json:"longest,omitempty"`
}

// AddLongest notes in Longest the context that one more engine, or a group of engines, has stated as the longest; 0 or less = it has not.
func (f *ModelFact) AddLongest(n int) {
	if n <= 0 || f.Longest < 0 {
		f.Longest = -1
		return
	}
	f.Longest = max(f.Longest, n)
}

// maxOwner bounds the name of an owner, in bytes.
const maxOwner = 64

// FactsPath returns the path at which engines of a kind say how long the context of their models is.
func FactsPath(kind string) string {
	switch kind {
	case "tgi":
		return "/info"
	case "llamacpp":
		return "/props"
	}
	return "/v1/models"
}

// ModelFacts reads the answer of an engine at its [FactsPath]: what it says about each model, and under the empty name about all of them. It is nil for
// anything else.
//
// Sources: the field max_model_len of the lists of vLLM (vllm/entrypoints/openai) and SGLang; max_total_tokens of TGI's router, which bounds prompt and
// answer; n_ctx of one slot in llama.cpp's tools/server.
func ModelFacts(body []byte) map[string]ModelFact {
	s := scan{b: body, lax: true}
	facts, all := map[string]ModelFact{}, ModelFact{}
	for key, more := s.firstMember(); more; key, more = s.nextMember() {
		switch string(key) {
		case "max_total_tokens":
			s.count(&all.MaxModelLen)
		case "default_generation_settings":
			s.memberCount("n_ctx", &all.MaxModelLen)
		case "data":
			s.modelFacts(facts)
		default:
			s.skip()
		}
	}
	if !s.end() {
		return nil
	}
	if all != (ModelFact{}) {
		facts[""] = all
	}
	return facts
}

// modelFacts reads a list of models.
func (s *scan) modelFacts(to map[string]ModelFact) {
	if s.space() != '[' {
		s.skip()
		return
	}
	for more := s.firstElement(); more; more = s.nextElement() {
		if s.space() != '{' {
			s.skip()
			continue
		}
		name, fact := "", ModelFact{}
		for key, member := s.firstMember(); member; key, member = s.nextMember() {
			switch string(key) {
			case "id":
				name = string(s.text())
			case "owned_by":
				if owner := s.text(); isOwner(owner) {
					fact.OwnedBy = string(owner)
				}
			case "max_model_len":
				s.count(&fact.MaxModelLen)
			default:
				s.skip()
			}
		}
		if name != "" && fact != (ModelFact{}) {
			to[name] = fact
		}
	}
}

// isOwner reports whether a text may be the name of an owner: words, as in "Triton Inference Server".
func isOwner(name []byte) bool {
	return len(name) <= maxOwner && ascii.IsVisible(bytes.ReplaceAll(name, []byte(" "), nil))
}

// And returns what both of two engines promise: the shorter context, and the owner that the first names, if it names one.
func (f ModelFact) And(g ModelFact) ModelFact {
	if g.MaxModelLen > 0 && (f.MaxModelLen == 0 || g.MaxModelLen < f.MaxModelLen) {
		f.MaxModelLen = g.MaxModelLen
	}
	if f.OwnedBy == "" {
		f.OwnedBy = g.OwnedBy
	}
	return f
}
