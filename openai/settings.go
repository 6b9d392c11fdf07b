package openai

import "slices"

// engineField notes an engine field. One that is null is as if it were absent. In the engine's own API, some of them hold settings beside what
// the operator should choose.
func (p *peeker) engineField(f field) bool {
	switch name := engineFieldTable[f-firstEngineField].Name; {
	case p.at("null"):
		return p.skip()
	case name == "options" && p.api.isOllama():
		return p.settings(name, func(key string) bool { return slices.Contains(reloadingOptions, key) })
	case name == "parameters" && p.api == Generate:
		return p.settings(name, func(string) bool { return false })
	}
	p.body.EngineFields |= f.engine()
	return p.skip()
}

func (a API) isOllama() bool { return a == OllamaChat || a == OllamaGenerate || a == OllamaEmbed }

// reloadingOptions are the options with which Ollama loads a model again: those of its type Runner
// (https://github.com/ollama/ollama/blob/main/api/types.go).
var reloadingOptions = []string{"num_ctx", "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread",
	"numa", "low_vram", "vocab_only", "use_mlock", "f16_kv", "logits_all"}

// settings passes the object under which an engine's own API has the settings of a request. It reads the bound of tokens and the number of
// completions, and notes members that are engine fields, or of which forbidden says so. Members that matter are refused twice and in other
// letter case, as everywhere.
func (p *peeker) settings(field string, forbidden func(key string) bool) bool {
	if p.space() != '{' {
		return p.refuse(InvalidRequest(field, "%q must be an object", field))
	}
	matters := func(key []byte) bool { return isSetting(key) || engineFieldNamed(key) != 0 || forbidden(string(key)) }
	var seen []string
	for key, ok := p.firstMember(); ok; key, ok = p.nextMember() {
		var buf [maxKey]byte
		switch {
		case !matters(key) && hasNUL(key):
			return p.refuse(keyWithNUL())
		case !matters(key) && len(key) <= maxKey && !plainKey(key) && matters(appendFolded(buf[:0], key)):
			return p.refuse(InvalidRequest(field, "the field %q of %q must be written in lower case", string(key), field))
		case !matters(key):
			if !p.skip() {
				return false
			}
			continue
		case slices.Contains(seen, string(key)):
			return p.refuse(InvalidRequest(field, "the field %q of %q occurs twice", string(key), field))
		}
		seen = append(seen, string(key))
		if !p.setting(field, string(key), forbidden) {
			return false
		}
	}
	return p.fault == noFault
}

func isSetting(key []byte) bool {
	switch string(key) {
	case "num_predict", "max_new_tokens", "best_of":
		return true
	}
	return false
}

// setting reads one member that matters.
func (p *peeker) setting(field, key string, forbidden func(key string) bool) bool {
	switch engine := engineFieldNamed([]byte(key)); {
	case key == "best_of":
		return p.choices(key)
	case isSetting([]byte(key)):
		return p.maxTokens(0)
	case p.at("null"):
	case forbidden(key):
		p.body.EngineFields |= EngineFieldsNamed([]string{field})
	case engine != 0:
		p.body.EngineFields |= engine.engine()
	}
	return p.skip()
}
