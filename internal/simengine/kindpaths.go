package simengine

import (
	"net/http"
	"strings"
)

// setPaths replaces the paths of OpenAI's whole API by those that engines of the kind have.
func (e *Engine) setPaths() {
	own := e.kindPaths()
	if e.c.Kind == "openai" { // of which some have vLLM's own paths too
		for name, p := range vllmOwn() {
			e.routes["POST "+name] = e.handle(p)
		}
	}
	if own == nil {
		return // those of OpenAI, and of the many that are compatible with it
	}
	for route := range e.routes {
		if path, ok := strings.CutPrefix(route, "POST /v1/"); ok && !strings.Contains(path, "lora") {
			delete(e.routes, route)
		}
	}
	delete(e.routes, "GET /v1/realtime")
	for name, p := range own {
		e.routes["POST "+name] = e.handle(p)
	}
}

func (e *Engine) kindPaths() map[string]path {
	switch e.c.Kind {
	case "vllm":
		return e.vllmPaths()
	case "sglang":
		return sglangPaths()
	case "llamacpp":
		return llamacppPaths()
	case "ollama":
		return ollamaPaths()
	case "tgi":
		return tgiPaths()
	case "tei":
		return e.teiPaths()
	case "triton":
		return generating(detailWords)
	}
	return nil
}

// generating are the paths of OpenAI that most engines of text have.
func generating(w words) map[string]path {
	return map[string]path{
		"/v1/chat/completions": {read: readJSON, shape: failing(w, chat), words: w},
		"/v1/completions":      {read: readJSON, shape: failing(w, completion), words: w},
		"/v1/embeddings":       {read: readJSON, shape: embeddings, words: w},
	}
}

// vllmPaths are those of the type of its models alone (vllm/entrypoints: openai, anthropic, pooling, serve/tokenize).
func (e *Engine) vllmPaths() map[string]path {
	all := map[string]path{}
	scored := path{read: readAs((*scoreBody).call), shape: score}
	ranked := path{read: readJSON, shape: vllmRerank}
	pooled := path{read: readAs((*scoreBody).call), shape: pooling}
	switch e.c.Type {
	case "chat":
		all["/v1/chat/completions"] = path{read: readJSON, shape: chat}
		all["/v1/completions"] = path{read: readJSON, shape: completion}
		all["/v1/responses"] = path{read: readJSON, shape: response}
		all["/v1/messages"] = path{read: readAs((*fullMessagesBody).call), shape: messages, words: vllmMessagesWords}
		all["/v1/messages/count_tokens"] = path{read: readAs((*messagesBody).call), shape: countMessages, words: vllmMessagesWords, aside: true}
	case "embedding":
		all["/v1/embeddings"] = path{read: readJSON, shape: embeddings}
		all["/pooling"], all["/score"], all["/v1/score"] = pooled, scored, scored
	case "rerank":
		all["/rerank"], all["/v1/rerank"], all["/v2/rerank"] = ranked, ranked, ranked
		all["/pooling"], all["/score"], all["/v1/score"] = pooled, scored, scored
		all["/classify"] = path{read: readAs((*scoreBody).call), shape: classify}
	case "audio":
		all["/v1/audio/transcriptions"] = path{read: readForm, shape: transcription}
		all["/v1/audio/translations"] = path{read: readForm, shape: transcription}
	}
	for name := range all { // GET of a path for POST is answered 405
		e.routes["GET "+name] = func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusMethodNotAllowed, []byte(`{"detail":"Method Not Allowed"}`))
		}
	}
	if e.c.Type != "audio" {
		own := vllmOwn()
		all["/tokenize"], all["/detokenize"] = own["/tokenize"], own["/detokenize"]
	}
	return all
}

// vllmOwn are paths of vLLM's that other engines have taken over.
func vllmOwn() map[string]path {
	scored := path{read: readAs((*scoreBody).call), shape: score}
	return map[string]path{
		"/tokenize":   {read: readAs((*tokenizeBody).call), shape: tokenize, aside: true, loose: true},
		"/detokenize": {read: readAs((*tokenizeBody).call), shape: detokenize, aside: true, loose: true},
		"/score":      scored, "/v1/score": scored,
	}
}

// sglangPaths are those of python/sglang/srt/entrypoints/http_server.py, which do not depend on the model.
func sglangPaths() map[string]path {
	all := generating(openAIWords)
	for name, p := range all { // errors in a stream have OpenAI's form, others do not
		p.words = flatWords
		all[name] = p
	}
	tokenized := path{read: readAs((*tokenizeBody).call), shape: tokenize, words: flatWords, aside: true, loose: true}
	joined := path{read: readAs((*tokenizeBody).call), shape: detokenize, words: flatWords, aside: true, loose: true}
	classified := path{read: readAs((*scoreBody).call), shape: classify, words: flatWords, loose: true}
	all["/v1/responses"] = path{read: readJSON, shape: response, words: flatWords}
	all["/v1/messages"] = path{read: readAs((*fullMessagesBody).call), shape: messages, words: messagesWords}
	all["/v1/messages/count_tokens"] = path{read: readAs((*messagesBody).call), shape: countMessages, words: messagesWords, aside: true}
	all["/generate"] = path{read: readAs((*generateBody).call), shape: sglangGenerate, loose: true}
	all["/v1/score"] = path{read: readAs((*scoreBody).call), shape: sglangScore, words: flatWords, loose: true}
	all["/v1/rerank"] = path{read: readJSON, shape: sglangRerank, words: flatWords, loose: true}
	all["/v1/classify"], all["/classify"] = classified, classified
	all["/tokenize"], all["/v1/tokenize"] = tokenized, tokenized
	all["/detokenize"], all["/v1/detokenize"] = joined, joined
	all["/v1/audio/transcriptions"] = path{read: readForm, shape: transcription, words: flatWords, loose: true}
	return all
}

// llamacppPaths are those of tools/server/server.cpp. An engine of one model does not look at the one that requests name.
func llamacppPaths() map[string]path {
	all := generating(llamaWords)
	all["/v1/responses"] = path{read: readJSON, shape: response, words: llamaWords}
	all["/v1/messages"] = path{read: readAs((*messagesBody).call), shape: messages, words: llamaWords}
	all["/v1/messages/count_tokens"] = path{read: readAs((*messagesBody).call), shape: countMessages, words: llamaWords, aside: true}
	all["/completion"] = path{read: readAs((*llamaBody).call), shape: llamaCompletion, words: llamaWords}
	all["/completions"] = all["/completion"]
	all["/infill"] = path{read: readAs((*infillBody).call), shape: llamaCompletion, words: llamaWords}
	for _, name := range []string{"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"} {
		all[name] = path{read: readJSON, shape: llamaRerank, words: llamaWords}
	}
	all["/tokenize"] = path{read: readAs((*tokenizeBody).call), shape: tokenize, words: llamaWords, aside: true}
	all["/detokenize"] = path{read: readAs((*tokenizeBody).call), shape: detokenize, words: llamaWords, aside: true}
	all["/v1/audio/transcriptions"] = path{read: readForm, shape: transcription, words: llamaWords}
	for name, p := range all {
		p.loose = true
		all[name] = p
	}
	return all
}

// ollamaPaths are those of server/routes.go.
func ollamaPaths() map[string]path {
	all := generating(openAIWords)
	all["/v1/chat/completions"] = path{read: readOldJSON, shape: failing(openAIWords, chat), words: openAIWords}
	all["/v1/responses"] = path{read: readJSON, shape: response}
	all["/v1/audio/transcriptions"] = path{read: readForm, shape: transcription}
	all["/v1/messages"] = path{read: readAs((*fullMessagesBody).call), shape: messages, words: messagesWords}
	all["/api/chat"] = path{read: readAs((*ollamaBody).call), shape: ollamaChat, words: ollamaWords}
	all["/api/generate"] = path{read: readAs((*ollamaBody).call), shape: ollamaComplete, words: ollamaWords}
	all["/api/embed"] = path{read: readAs((*ollamaBody).call), shape: ollamaEmbed, words: ollamaWords}
	all["/api/embeddings"] = path{read: readAs((*ollamaBody).call), shape: ollamaEmbedding, words: ollamaWords}
	return all
}

// tgiPaths are those of router/src/server.rs.
func tgiPaths() map[string]path {
	all := generating(tgiWords)
	all["/v1/chat/completions"] = path{read: readOldJSON, shape: failing(tgiWords, chat), words: tgiWords}
	delete(all, "/v1/embeddings")
	all["/generate"] = path{read: readAs((*tgiBody).call), shape: tgiPlain, words: tgiWords}
	all["/generate_stream"] = path{read: readAs((*tgiBody).call), shape: tgiStream, words: tgiWords}
	all["/"] = path{read: readAs((*tgiBody).call), shape: tgiCompat, words: tgiWords}
	all["/tokenize"] = path{read: readAs((*teiBody).call), shape: routerTokenize, words: tgiWords, aside: true}
	all["/chat_tokenize"] = path{read: readOldJSON, shape: chatTokenize, words: tgiWords, aside: true}
	for name, p := range all {
		p.loose = true
		all[name] = p
	}
	return all
}

// teiPaths are those of router/src/http/server.rs. Paths that are not of the model's type refuse every request; here they are left out.
func (e *Engine) teiPaths() map[string]path {
	all := map[string]path{
		"/tokenize": {read: readAs((*teiBody).call), shape: routerTokenize, words: teiWords, aside: true, loose: true},
		"/decode":   {read: readAs((*teiBody).call), shape: teiDecode, words: teiWords, aside: true, loose: true},
	}
	if e.c.Type == "rerank" {
		all["/rerank"] = path{read: readAs((*teiBody).call), shape: teiRerank, words: teiWords, loose: true}
		all["/predict"] = path{read: readAs((*teiBody).call), shape: teiPredict, words: teiWords, loose: true}
		return all
	}
	all["/embed"] = path{read: readAs((*teiBody).call), shape: teiEmbed, words: teiWords, loose: true}
	all["/v1/embeddings"] = path{read: readJSON, shape: embeddings, words: teiEmbeddingsWords, loose: true}
	all["/embeddings"] = all["/v1/embeddings"]
	return all
}
