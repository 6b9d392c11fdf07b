package openai

import (
	"slices"
	"strings"
)

// Lack is what an engine does not have, by its own words.
type Lack uint8

const (
	LacksNothing Lack = iota // or it does not say so
	LacksModel               // the model: an adapter that is not loaded, or a model that it does not serve
	LacksPath                // the path of the API, or the method there
)

// LackOf returns what an engine says that it lacks, in an answer with an error. engine is its kind, as documents name it, and model
// the name by which it was asked for the model.
//
//	vLLM       404  {"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":"model","code":404}}
//	SGLang     400  {"object":"error","message":"The following requested LoRA adapters are not loaded: m\nLoaded adapters: …"}
//	Ollama     404  {"error":{"message":"model \"m\" not found, try pulling it first",…}}
//	llama.cpp  400  {"error":{"message":"model 'm' not found",…}}, of a server of several models
//	Triton     400  {"detail":"Unknown model: m"}
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
	case status == 400 && said.refusesModel(model), status == 404 && said.isWithoutModel(model):
		return LacksModel
	case status != 400 && said.isWithoutPath(engine, len(body) == 0):
		return LacksPath
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

// isWithoutModel reports whether a 404 is about the model.
func (said *engineText) isWithoutModel(model string) bool {
	if said.plain {
		return false
	}
	text := strings.ToLower(said.message)
	names := strings.Contains(text, "model") || strings.Contains(text, "adapter") || strings.Contains(text, strings.ToLower(model))
	return said.code == "model_not_found" || said.param == "model" || names && says(text, "not found", "not exist", "unknown model", "not loaded", "not serve")
}

// refusesModel reports whether a 400 says in so many words that the engine does not have the model. Other errors may repeat what the
// client wrote, so only the beginning counts.
func (said *engineText) refusesModel(model string) bool {
	_, adapter, _ := strings.Cut(model, ":") // SGLang's form of an adapter's name is base:adapter
	for _, name := range []string{model, adapter} {
		if name == "" {
			continue
		}
		for _, beginning := range []string{
			"The following requested LoRA adapters are not loaded: " + name, "The following requested LoRA adapters are not loaded: {'" + name + "'",
			"model '" + name + "' not found", "Unknown model: " + name, "The model `" + name + "` does not exist",
		} {
			if strings.HasPrefix(said.message, beginning) {
				return true
			}
		}
	}
	return false
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
