package openai

import (
	"slices"
	"strings"
)

// apisOfType has the APIs that models of each type answer, as documents name the type. Those of type generic may answer any but realtime.
var apisOfType = map[string][]API{
	"chat":       {Chat, Completions, Responses, Messages, CountTokens, Tokenize, Infill, LlamaCompletions, OllamaChat, OllamaGenerate, Generate},
	"completion": {Completions, Tokenize, Infill, LlamaCompletions, OllamaGenerate, Generate},
	"embedding":  {Embeddings, Rerank, Score, Pooling, Tokenize, OllamaEmbed}, // Rerank and Score by the likeness of vectors, which some engines offer
	"rerank":     {Rerank, Score, Classify, Pooling, Tokenize},
	"audio":      {Speech, Transcriptions},
	"image":      {Images},
	"realtime":   {Realtime},
}

// modelTypes are the types in the order of the documentation, but for generic.
var modelTypes = []string{"chat", "completion", "embedding", "rerank", "audio", "image", "realtime"}

// TypeServes reports whether models of a type, as documents name it, answer an API.
func TypeServes(modelType string, api API) bool {
	if apis, known := apisOfType[modelType]; known {
		return slices.Contains(apis, api)
	}
	return api != Realtime && !api.AboutModels()
}

// AboutModels reports whether an API is about the models themselves, so that no engine is asked.
func (a API) AboutModels() bool {
	switch a {
	case ListModels, GetModel, OllamaTags, OllamaRunning, OllamaVersion, OllamaShow:
		return true
	}
	return false
}

// pathsOf lists the paths that models of a type serve, but for one, as an error names them. Unless engines is empty, it leaves out those that
// none of the engines has.
func pathsOf(modelType, but string, engines Engines) string {
	var names []string
	for i := range paths {
		if row := &paths[i]; row.path != but && TypeServes(modelType, row.api) && (engines == 0 || engines.have(row)) {
			names = append(names, row.path)
		}
	}
	return strings.Join(names, ", ")
}
