package simengine

import (
	"cmp"
	"net/http"
	"strings"
)

// words turn an error into the answer that engines give on a path: its status and its body.
type words func(apiError) (status int, body []byte)

// openAIWords are those of OpenAI, and of vLLM and Ollama on OpenAI's paths.
func openAIWords(e apiError) (int, []byte) { return e.Status, e.body() }

// flatWords are SGLang's on OpenAI's paths (create_error_response in python/sglang/srt/entrypoints/openai/serving_base.py).
func flatWords(e apiError) (int, []byte) {
	return e.Status, marshal(object{"object": "error", "message": e.Message, "type": e.Type, "param": e.Param, "code": e.Status})
}

// detailWords are those of FastAPI, as Triton's frontend has them.
func detailWords(e apiError) (int, []byte) {
	return e.Status, marshal(object{"detail": e.Message})
}

// llamaWords are llama.cpp's on all paths, also those of Anthropic (format_error_response in tools/server/server-common.cpp).
func llamaWords(e apiError) (int, []byte) {
	kind := "server_error"
	switch e.Status {
	case http.StatusBadRequest:
		kind = "invalid_request_error"
	case http.StatusNotFound:
		kind = "not_found_error"
	case http.StatusServiceUnavailable:
		kind = "unavailable_error"
	}
	return e.Status, marshal(object{"error": object{"code": e.Status, "message": e.Message, "type": kind}})
}

// vllmMessagesWords are vLLM's on Anthropic's paths: its own types of errors in Anthropic's form (translate_error_response in
// vllm/entrypoints/anthropic/api_router.py).
func vllmMessagesWords(e apiError) (int, []byte) { return e.Status, messagesError(e.Type, e.Message) }

// messagesWords are those of Anthropic, and of Ollama and SGLang on Anthropic's paths (NewError in ollama's anthropic/anthropic.go).
func messagesWords(e apiError) (int, []byte) {
	kinds := map[int]string{
		http.StatusBadRequest: "invalid_request_error", http.StatusNotFound: "not_found_error", http.StatusTooManyRequests: "rate_limit_error",
		http.StatusServiceUnavailable: "overloaded_error",
	}
	return e.Status, messagesError(cmp.Or(kinds[e.Status], "api_error"), e.Message)
}

func messagesError(kind, message string) []byte {
	return marshal(object{"type": "error", "error": object{"type": kind, "message": message}})
}

// ollamaWords are Ollama's on its own paths (https://docs.ollama.com/api/errors).
func ollamaWords(e apiError) (int, []byte) { return e.Status, marshal(object{"error": e.Message}) }

// tgiWords are TGI's on all paths (InferError in router/src/infer/mod.rs, and its statuses in router/src/server.rs).
func tgiWords(e apiError) (int, []byte) {
	status, kind := routerStatus(e.Status)
	return status, marshal(object{"error": e.Message, "error_type": kind})
}

// teiWords are TEI's on its own paths, in whose types the first letter is large (ErrorType in router/src/lib.rs).
func teiWords(e apiError) (int, []byte) {
	status, kind := teiKind(e)
	return status, marshal(object{"error": e.Message, "error_type": kind})
}

// teiEmbeddingsWords are TEI's on OpenAI's path (OpenAICompatErrorResponse).
func teiEmbeddingsWords(e apiError) (int, []byte) {
	status, kind := teiKind(e)
	return status, marshal(object{"message": e.Message, "code": status, "type": kind})
}

func teiKind(e apiError) (int, string) {
	status, kind := routerStatus(e.Status)
	if kind == "generation" {
		kind = "backend"
	}
	return status, strings.ToUpper(kind[:1]) + kind[1:]
}

// routerStatus returns the status and the type that the routers of TGI and TEI have for an error.
func routerStatus(status int) (int, string) {
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return http.StatusTooManyRequests, "overloaded"
	case http.StatusInternalServerError:
		return http.StatusFailedDependency, "generation"
	}
	return http.StatusUnprocessableEntity, "validation"
}

// failing makes an answer's error event from the words of its path, in place of OpenAI's.
func failing(w words, shape func(*Engine, *call) answer) func(*Engine, *call) answer {
	return func(e *Engine, c *call) answer {
		a := shape(e, c)
		if a.fail != nil {
			a.fail = func(dst []byte, f failPoint) []byte { return event(dst, second(w(f.err))) }
		}
		return a
	}
}

func second(_ int, body []byte) []byte { return body }
