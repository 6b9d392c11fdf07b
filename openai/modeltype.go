package openai

import "strings"

// TypeServes reports whether models of a type, as documents name it, answer an API. Those of type generic may answer any but realtime.
func TypeServes(modelType string, api API) bool {
	switch modelType {
	case "chat":
		return api == Chat || api == Completions || api == Responses
	case "completion":
		return api == Completions
	case "embedding":
		return api == Embeddings || api == Rerank // by the likeness of vectors, which some engines offer
	case "rerank":
		return api == Rerank
	case "audio":
		return api == Speech || api == Transcriptions
	case "image":
		return api == Images
	case "realtime":
		return api == Realtime
	}
	return api != Realtime // generic
}

// pathsOf lists the paths that models of a type serve, but for one, as an error names them.
func pathsOf(modelType, but string) string {
	var paths []string
	for _, path := range inferencePaths() {
		if path != but && TypeServes(modelType, routeOf([]byte(path)).API) {
			paths = append(paths, path)
		}
	}
	return strings.Join(paths, ", ")
}

// inferencePaths returns all paths that requests for models may have.
func inferencePaths() []string {
	return []string{
		"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/rerank", "/v1/images/generations", "/v1/images/edits",
		"/v1/images/variations", "/v1/audio/speech", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/realtime",
	}
}
