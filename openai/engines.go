package openai

import "slices"

// Engines is a set of kinds of engines. The zero value is the empty set.
type Engines uint32

// kinds are the kinds of engines, as documents of endpoints name them. Nodes tell each other sets of them: new ones go to the end.
var kinds = []string{"vllm", "sglang", "tgi", "tei", "llamacpp", "ollama", "triton", kindCompatible}

// With returns the set with one kind more. An unknown one counts as compatible with OpenAI's API.
func (s Engines) With(kind string) Engines {
	at := slices.Index(kinds, kind)
	if at < 0 {
		at = len(kinds) - 1
	}
	return s | 1<<at
}

// have reports whether engines of one of the kinds have a path, or one that it is translated to.
func (s Engines) have(row *pathRow) bool {
	for at, kind := range kinds {
		if s&(1<<at) != 0 && row.support(kind) != Unsupported {
			return true
		}
	}
	return false
}
