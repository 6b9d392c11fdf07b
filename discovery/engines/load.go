package engines

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Loading asks an engine to load a model or to unload it.
type Loading struct {
	Engine string // one of fleet.Engines
	Unload bool
	Name   string // of the model or adapter, as the engine calls it
	Source string // of an adapter: where the engine finds it, such as a directory on its machine; empty = Name
}

// UnsupportedError says that a kind of engine cannot load or unload models while it runs.
type UnsupportedError struct {
	Engine string // one of fleet.Engines
	Unload bool
	Can    string // what the engine can do instead; empty = its kind is not known
}

// Error returns one sentence.
func (e *UnsupportedError) Error() string {
	if e.Can == "" {
		return fmt.Sprintf("the engine is of no known kind (engine: %s), so it is not known how it would %s a model; vLLM, SGLang, Ollama, llama.cpp and Triton can: "+
			"if it is one of these, name it in the field engine of the endpoint", e.Engine, verb(e.Unload))
	}
	return fmt.Sprintf("%s cannot %s a model while it runs: %s", kindName(e.Engine), verb(e.Unload), e.Can)
}

func verb(unload bool) string {
	if unload {
		return "unload"
	}
	return "load"
}

// LoadingCall is the request of a [Loading], by POST.
type LoadingCall struct {
	Path string
	Body []byte // JSON
	hint string // what to look at if the engine does not have the path
}

// ErrModelName is returned for a name that cannot stand in the path of a request.
var ErrModelName = errors.New("model: . and .. are no names of models of Triton: they would change the path of the request")

// Call returns the request. The error is an *[UnsupportedError] if no version of the engine can do this, or [ErrModelName].
//
// Sources: the pages of vLLM and SGLang on LoRA, of Ollama on its API and its questions and answers;
// ggml-org/llama.cpp: tools/server/README.md, "model management"; triton-inference-server/server: docs/protocol/extension_model_repository.md.
func (l Loading) Call() (LoadingCall, error) {
	switch l.Engine {
	case "vllm":
		return l.adapter("/v1", "vLLM loads adapters while it runs only if it was started with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"), nil
	case "sglang":
		return l.adapter("", "SGLang loads adapters while it runs only if it was started with --enable-lora"), nil
	case "ollama":
		keep := -1 // for ever
		if l.Unload {
			keep = 0
		}
		return call("/api/generate", map[string]any{"model": l.Name, "keep_alive": keep, "stream": false}, ""), nil
	case "llamacpp":
		return call("/models/"+verb(l.Unload), map[string]any{"model": l.Name},
			"llama.cpp loads models while it runs only as a router, which is a llama-server that was started without a model"), nil
	case "triton":
		if l.Name == "." || l.Name == ".." { // which PathEscape leaves as they are
			return LoadingCall{}, ErrModelName
		}
		return call("/v2/repository/models/"+url.PathEscape(l.Name)+"/"+verb(l.Unload), map[string]any{},
			"Triton has this path at its KServe port, with --model-control-mode=explicit; its OpenAI front end may lack it"), nil
	case "tgi":
		return LoadingCall{}, l.unsupported("its model and its adapters are those of its start, --model-id and --lora-adapters")
	case "tei":
		return LoadingCall{}, l.unsupported("its model is that of its start, --model-id")
	}
	return LoadingCall{}, l.unsupported("")
}

func (l Loading) unsupported(can string) error {
	return &UnsupportedError{Engine: l.Engine, Unload: l.Unload, Can: can}
}

// LoadsAdapters reports whether a kind of engine loads nothing but LoRA adapters of its base model.
func LoadsAdapters(engine string) bool { return engine == "vllm" || engine == "sglang" }

// OnlyAdapters is the error for a base model of an engine that loads nothing but adapters.
func (l Loading) OnlyAdapters() error {
	return l.unsupported("it loads LoRA adapters of its base model, and the model is no adapter; a model that needs one has the field adapter")
}

// adapter is the request for a LoRA adapter.
func (l Loading) adapter(prefix, hint string) LoadingCall {
	name := l.Name
	if _, adapter, ok := strings.Cut(name, ":"); ok && l.Engine == "sglang" {
		name = adapter // clients ask for base:adapter
	}
	body := map[string]any{"lora_name": name}
	if !l.Unload {
		if body["lora_path"] = l.Source; l.Source == "" {
			body["lora_path"] = name
		}
	}
	return call(prefix+"/"+verb(l.Unload)+"_lora_adapter", body, hint)
}

func call(path string, body map[string]any, hint string) LoadingCall {
	text, err := json.Marshal(body)
	if err != nil {
		panic("engines: " + err.Error()) // strings and numbers
	}
	return LoadingCall{Path: path, Body: text, hint: hint}
}

// EngineError is the answer of an engine that has not done what it was asked for.
type EngineError struct {
	Status int
	Said   string // in its own words, on one line and shortened
	Hint   string // what to look at; empty = nothing is known
}

// Error returns what the engine said.
func (e *EngineError) Error() string {
	said := e.Said
	if said == "" {
		said = "no reason"
	}
	text := fmt.Sprintf("the engine answered %d: %s", e.Status, said)
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Outcome returns what the engine said in its answer to the request, or an *[EngineError]. redact takes secrets out of the engine's words when
// they are decoded, and before they are shortened.
func (c LoadingCall) Outcome(status int, body []byte, redact func(string) string) (said string, err error) {
	said, refused := loadingWords(body)
	said = printable(redact(said))
	if status >= 200 && status < 300 && !refused {
		return said, nil
	}
	failed := &EngineError{Status: status, Said: said}
	if status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusForbidden {
		failed.Hint = c.hint
	}
	return "", failed
}

// loadingWords returns the message of an answer, and whether it reports a failure whatever its status.
func loadingWords(body []byte) (said string, refused bool) {
	var answer struct {
		Success      *bool           `json:"success"`
		Message      string          `json:"message"`
		ErrorMessage string          `json:"error_message"`
		Detail       any             `json:"detail"`
		DoneReason   string          `json:"done_reason"`
		Error        json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		text := strings.TrimSpace(string(body))
		if strings.HasPrefix(text, "<") {
			return "a web page", false
		}
		return text, false
	}
	said = answer.Message
	var inner struct {
		Message string `json:"message"`
	}
	var plain string
	switch {
	case json.Unmarshal(answer.Error, &plain) == nil && plain != "":
		said, refused = plain, true
	case json.Unmarshal(answer.Error, &inner) == nil && inner.Message != "":
		said, refused = inner.Message, true
	case answer.ErrorMessage != "":
		said = answer.ErrorMessage
	case answer.Detail != nil:
		said = fmt.Sprint(answer.Detail)
	case said == "" && answer.DoneReason != "":
		said = answer.DoneReason
	}
	return said, refused || answer.Success != nil && !*answer.Success
}
