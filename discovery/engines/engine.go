package engines

import (
	"fmt"
	"strings"

	"colonnade/fleet"
)

// Engine is what an engine says about itself.
type Engine struct {
	URL      string // as documents have it: without a trailing /v1 or slash
	Kind     string // one of fleet.Engines
	Version  string // "" = it does not say
	Models   []Model
	Slots    int      // requests that it runs at once; 0 = it does not say
	KVEvents string   // where it publishes events of its KV cache, as documents have it; "" = nowhere, or it does not say
	Notes    []string // sentences about what was assumed or left out
}

// Model is a model that an engine serves.
type Model struct {
	Name        string // by which clients ask for it
	Upstream    string // what the engine calls it
	Base        string // name of the model of the same engine that it is an adapter or another name of; "" = none
	Type        fleet.ModelType
	MaxModelLen int    // most tokens of prompt and answer together; 0 = the engine does not say
	Note        string // a sentence about what was assumed; "" = nothing
}

// Types of models that package fleet does not name.
const (
	typeEmbedding fleet.ModelType = "embedding"
	typeRerank    fleet.ModelType = "rerank"
	typeAudio     fleet.ModelType = "audio"
	typeImage     fleet.ModelType = "image"
)

// maxModels is the most models that one engine is believed to serve: documents accept no longer lists.
const maxModels = 512

// NotEngineError is an answer from something that cannot be used as an engine. Asking again does not help.
type NotEngineError struct {
	URL    string
	Answer string // the request and what came back
	Advice string // what to do
}

// Error returns one sentence.
func (e *NotEngineError) Error() string {
	return fmt.Sprintf("%s is no engine that can be used: %s; %s", e.URL, e.Answer, e.Advice)
}

const giveEngine = "give the URL of a vLLM, SGLang, TGI, TEI, llama.cpp or Ollama server, of Triton's OpenAI front end, " +
	"or of anything with GET /v1/models"

// add adds a model under a name that documents accept. Models without such a name are left out with a note.
func (e *Engine) add(m Model) {
	name := modelName(m.Upstream)
	switch {
	case name == "":
		e.note("The model %s is left out: documents do not accept its name; give it another in the engine.", shown(m.Upstream))
		return
	case name != m.Upstream && e.renamedBytes()+len(m.Upstream) > maxRenamed:
		e.note("The model %s is left out: the names of this engine's models are too long together.", shown(m.Upstream))
		return
	case e.model(name) != nil:
		if e.model(name).Upstream != m.Upstream {
			e.note("The model %s is left out: its name would be %s, which another model of this engine has.", shown(m.Upstream), name)
		}
		return
	case len(e.Models) == maxModels:
		e.note("The model %s is left out: at most %d models of an engine are taken.", shown(m.Upstream), maxModels)
		return
	}
	m.Name = name
	e.Models = append(e.Models, m)
}

// maxRenamed bounds the names of an engine's models that are not their names here, so that they have room in one document.
const maxRenamed = 16 << 10

func (e *Engine) renamedBytes() int {
	total := 0
	for _, m := range e.Models {
		if m.Upstream != m.Name {
			total += len(m.Name) + len(m.Upstream)
		}
	}
	return total
}

// maxNotes bounds the notes about an engine with many models.
const maxNotes = 20

func (e *Engine) note(format string, args ...any) {
	if len(e.Notes) < maxNotes {
		e.Notes = append(e.Notes, fmt.Sprintf(format, args...))
	}
}

func (e *Engine) model(name string) *Model {
	for i := range e.Models {
		if e.Models[i].Name == name {
			return &e.Models[i]
		}
	}
	return nil
}

// had returns the model that an engine of this kind and version called upstream before; nil if it had none, or is another.
func (e *Engine) had(kind, version, upstream string) *Model {
	if e == nil || e.Kind != kind || e.Version != version {
		return nil
	}
	for i := range e.Models {
		if e.Models[i].Upstream == upstream {
			return &e.Models[i]
		}
	}
	return nil
}

// generates reports whether one of the models answers with tokens, one after the other.
func (e *Engine) generates() bool {
	for _, m := range e.Models {
		if m.Type == fleet.TypeChat {
			return true
		}
	}
	return false
}

// bases returns the models that are neither adapters nor further names of another.
func (e *Engine) bases() []Model {
	var bases []Model
	for _, m := range e.Models {
		if m.Base == "" {
			bases = append(bases, m)
		}
	}
	return bases
}

// String returns the kind and the version as people write them, such as "vLLM 0.11.0".
func (e *Engine) String() string {
	return strings.TrimSpace(kindName(e.Kind) + " " + printable(e.Version))
}

func kindName(kind string) string {
	switch kind {
	case "vllm":
		return "vLLM"
	case "sglang":
		return "SGLang"
	case "tgi", "tei":
		return strings.ToUpper(kind)
	case "llamacpp":
		return "llama.cpp"
	case "ollama":
		return "Ollama"
	case "triton":
		return "Triton"
	}
	return "an engine that speaks the OpenAI API"
}
