package openai

import (
	"slices"
	"strings"

	"colonnade/internal/ascii"
)

// Lack is what an engine does not have, by its own words.
type Lack uint8

const (
	LacksNothing Lack = iota // or it does not say so
	LacksModel               // the model: an adapter that is not loaded, or a model that it does not serve
	MayLackModel             // the same in words that are not known, and may be an echo of what the client wrote
	LacksPath                // the path of the API, or the method there
)

// LackOf returns what an engine says that it lacks, in an answer with an error. engine is its kind, as documents name it, and model
// the name by which it was asked for the model. Texts of the client can be echoed in the middle of an error, so only codes, and words with
// which an error begins, are LacksModel; and an error can begin with an echo at an engine that is not known here, so only the list of models
// is a proof.
//
//	vLLM       404  {"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":"model","code":404}}
//	vLLM       404  {"error":{"message":"LoRA adapter m does not exist",…}}, with a resolver of adapters; 400 if it "was found but could not be loaded"
//	SGLang     400  {"object":"error","message":"The following requested LoRA adapters are not loaded: m\nLoaded adapters: …"}
//	Ollama     404  {"error":{"message":"model 'm' not found",…}}, or model \"m\" not found, try pulling it first
//	llama.cpp  400  {"error":{"message":"model 'm' not found",…}}, of a router; "model is not loaded" if it loads none by itself
//	Triton     400  {"detail":"Unknown model: m"}, {"detail":"Unknown LoRA: a; for model: m"}
//	TGI             serves an adapter that it lacks by its base model, and says nothing
//	TEI             ignores the model
//	FastAPI    404  {"detail":"Not Found"} for a path: vLLM, SGLang and Triton
//	llama.cpp  404  {"error":{"message":"File Not Found",…}} for a path
//	Ollama     404  404 page not found, for a path
//	TGI, TEI   404  without a body, for a path
func LackOf(status int, body []byte, engine, model string) Lack {
	if status != 400 && status != 404 && status != 405 {
		return LacksNothing
	}
	said := readEngineError(body)
	switch {
	case status != 405 && said.namesModel(model), status == 404 && (said.code == "model_not_found" || said.param == "model"):
		return LacksModel
	case status != 400 && said.isWithoutPath(engine, len(body) == 0):
		return LacksPath
	case status == 404 && said.mayBeAboutModel(model):
		return MayLackModel
	}
	return LacksNothing
}

// engineText has the texts of an engine's error.
type engineText struct {
	message, code, param string
	plain                bool // the body is no JSON
}

// readEngineError reads the body of an engine's error, in any of its shapes.
func readEngineError(body []byte) engineText {
	s := scan{b: body, lax: true}
	var said engineText
	message, _ := engineMessage(&s)
	if s.fault != noFault || !s.end() {
		return engineText{message: string(body), plain: true}
	}
	text, _ := appendUnescaped(nil, message)
	said.message = string(text)
	s = scan{b: body, lax: true}
	said.readMembers(&s)
	return said
}

// readMembers reads the code and the parameter, inside the member error or beside it.
func (said *engineText) readMembers(s *scan) {
	for key, ok := s.firstMember(); ok; key, ok = s.nextMember() {
		switch string(key) {
		case "error":
			if s.space() == '{' {
				said.readMembers(s)
				continue
			}
			s.skip()
		case "code":
			said.code = string(s.text())
		case "param":
			said.param = string(s.text())
		default:
			s.skip()
		}
	}
}

// namesModel reports whether an error begins with words by which an engine of a known kind says that it does not have the model.
func (said *engineText) namesModel(model string) bool {
	if said.plain {
		return false
	}
	if said.message == "model is not loaded" || said.message == "model not found" {
		return true
	}
	if strings.HasPrefix(said.message, "adapter ") && strings.HasSuffix(said.message, " not found") {
		return true // whichever name it has at the engine
	}
	_, adapter, _ := strings.Cut(model, ":") // SGLang's form of an adapter's name is base:adapter
	for _, name := range []string{model, adapter} {
		if name == "" {
			continue
		}
		for _, beginning := range []string{
			"The following requested LoRA adapters are not loaded: " + name, "The following requested LoRA adapters are not loaded: {'" + name + "'",
			"model '" + name + "' not found", `model "` + name + `" not found`,
			"Unknown model: " + name, "The model `" + name + "` does not exist",
			"LoRA adapter " + name + " does not exist", "LoRA adapter '" + name + "' was found but could not be loaded",
		} {
			if rest, found := strings.CutPrefix(said.message, beginning); found && (rest == "" || !continuesName(rest[0])) {
				return true
			}
		}
	}
	lora, ofModel, found := strings.Cut(strings.TrimPrefix(said.message, "Unknown LoRA: "), "; for model: ")
	return found && strings.HasPrefix(said.message, "Unknown LoRA: ") && (ofModel == model || ofModel+lora == model || strings.HasSuffix(model, lora))
}

// continuesName reports whether a name goes on with a byte, so that an error is about another model.
func continuesName(c byte) bool {
	return ascii.IsAlphanumeric(c) || c == '-' || c == '_' || c == '/' || c == ':'
}

// mayBeAboutModel reports whether a 404 may be about the model.
func (said *engineText) mayBeAboutModel(model string) bool {
	if said.plain {
		return false
	}
	text := strings.ToLower(said.message)
	names := strings.Contains(text, "model") || strings.Contains(text, "adapter") || strings.Contains(text, strings.ToLower(model))
	return names && says(text, "not found", "not exist", "unknown model", "not loaded", "not serve")
}

// isWithoutPath reports whether a 404 or 405 is about the path.
func (said *engineText) isWithoutPath(engine string, empty bool) bool {
	if empty {
		return engine == "tgi" || engine == "tei"
	}
	text := strings.TrimSpace(said.message)
	return said.code == "unknown_url" || slices.Contains([]string{
		"Not Found", "Method Not Allowed", "File Not Found", "404 page not found", "405 method not allowed",
	}, text)
}

func says(text string, any ...string) bool {
	return slices.ContainsFunc(any, func(part string) bool { return strings.Contains(text, part) })
}
