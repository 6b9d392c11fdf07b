package openai

import (
	"bytes"
	"unicode/utf8"

	"colonnade/internal/ascii"
)

// API is a kind of request, which determines the form of its body and its answer.
type API uint8

const (
	Chat API = iota + 1
	Completions
	Responses
	Embeddings
	Rerank
	Images
	Speech
	Transcriptions // and translations
	Messages       // of Anthropic's API
	CountTokens
	Tokenize // and back
	Score
	Classify
	Pooling
	Infill
	LlamaCompletions // of llama.cpp's own API
	OllamaChat
	OllamaGenerate
	OllamaEmbed
	OllamaTags
	OllamaRunning // of models
	OllamaVersion
	OllamaShow
	Generate // of TGI's API
	Realtime
	ListModels
	GetModel
)

// String returns a short name for metrics and logs.
func (a API) String() string {
	names := [...]string{"unknown", "chat", "completions", "responses", "embeddings", "rerank",
		"images", "speech", "transcriptions", "messages", "count_tokens", "tokenize", "score", "classify", "pooling", "infill", "llama_completions",
		"ollama_chat", "ollama_generate", "ollama_embed", "ollama_tags", "ollama_running", "ollama_version", "ollama_show", "generate", "realtime", "list_models", "get_model"}
	if int(a) >= len(names) {
		a = 0
	}
	return names[a]
}

// isNative reports whether bodies of an API may have fields that are not OpenAI's.
func (a API) isNative() bool { return a >= Messages && a <= Generate }

// GeneratesText reports whether the answers of an API are generated text.
func (a API) GeneratesText() bool {
	switch a {
	case Chat, Completions, Responses, Messages, Infill, LlamaCompletions, OllamaChat, OllamaGenerate, Generate:
		return true
	}
	return false
}

// Route is the destination of a request.
type Route struct {
	API     API
	Dialect Dialect
	Path    string // one of a fixed set, such as "/v1/chat/completions"; for GetModel "/v1/models/{model}"
	Model   string // GetModel and Realtime, decoded; and of paths whose bodies may lack a model, that of the query, if it has one
}

const modelsPrefix = "/v1/models/"

// ParseRoute finds the route of a request target as received, query included. No path is repaired: one that is not
// spelled exactly as it is served is unknown. An error comes with the dialect in which the client expects it.
func ParseRoute(method, target []byte) (Route, *Error) {
	_, path, _, ok := SplitTarget(target)
	if !ok || !ascii.IsVisible(target) {
		return Route{}, UnknownURL(string(target))
	}
	path, query, _ := bytes.Cut(path, []byte("?"))
	route := routeOf(path)
	if route.API == 0 && bytes.HasPrefix(path, []byte(modelsPrefix)) {
		if route.Model, ok = modelInPath(path[len(modelsPrefix):]); ok {
			route.API, route.Path = GetModel, modelsPrefix+"{model}"
		}
	}
	if route.API == 0 {
		return Route{Dialect: dialectOf(path)}, UnknownURL(string(path))
	}
	if !route.API.allows(method) {
		return Route{Dialect: route.Dialect}, MethodNotAllowed(string(method), route.API.methods())
	}
	if route.API == Realtime || route.mayLackModel() {
		var err *Error
		if route.Model, err = modelInQuery(query, route.API == Realtime); err != nil {
			return Route{Dialect: route.Dialect}, err
		}
	}
	return route, nil
}

// mayLackModel reports whether bodies of the route may lack a model.
func (r Route) mayLackModel() bool {
	row := rowsByPath[r.Path]
	return row != nil && row.unnamed
}

// dialectOf returns the dialect of a client that asks for a path that is not served.
func dialectOf(path []byte) Dialect {
	switch {
	case bytes.HasPrefix(path, []byte("/api/")):
		return DialectOllama
	case bytes.HasPrefix(path, []byte("/v1/messages/")):
		return DialectAnthropic
	}
	return DialectOpenAI
}

// allows reports whether an API has a method.
func (a API) allows(method []byte) bool {
	switch a {
	case Realtime:
		return string(method) == "GET"
	case ListModels, GetModel, OllamaTags, OllamaRunning, OllamaVersion:
		return string(method) == "GET" || string(method) == "HEAD"
	}
	return string(method) == "POST"
}

// methods returns the methods of an API as the header Allow has them.
func (a API) methods() string {
	switch a {
	case Realtime:
		return "GET"
	case ListModels, GetModel, OllamaTags, OllamaRunning, OllamaVersion:
		return "GET, HEAD"
	}
	return "POST"
}

// modelInPath decodes a model's name at the end of a path. Slashes may be unescaped, too: some SDKs do not encode them.
func modelInPath(raw []byte) (string, bool) {
	name, ok := unescapePercent(nil, raw, false)
	if !ok || !plainModel(name) {
		return "", false
	}
	for part := range bytes.SplitSeq(name, []byte("/")) {
		if len(part) == 0 || string(part) == "." || string(part) == ".." {
			return "", false
		}
	}
	return string(name), true
}

// plainModel reports whether a model of the fleet may have this name.
func plainModel(name []byte) bool {
	for _, c := range name {
		if !ascii.IsAlphanumeric(c) && bytes.IndexByte([]byte("._:/@+-"), c) < 0 {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxModel && ascii.IsAlphanumeric(name[0])
}

// modelInQuery finds the one model of a query, which may have none unless it is needed.
func modelInQuery(query []byte, needed bool) (string, *Error) {
	bad := InvalidRequest("model", "the query must have one \"model\", and be separated by &")
	if bytes.IndexByte(query, ';') >= 0 {
		return "", bad
	}
	found, model := false, []byte(nil)
	for pair := range bytes.SplitSeq(query, []byte("&")) {
		rawName, rawValue, _ := bytes.Cut(pair, []byte("="))
		name, ok := unescapePercent(nil, rawName, true)
		if !ok {
			return "", bad
		}
		if !ascii.EqualFold(name, "model") {
			continue
		}
		if model, ok = unescapePercent(nil, rawValue, true); !ok || found || string(name) != "model" {
			return "", bad
		}
		found = true
	}
	switch {
	case !found && needed:
		return "", bad
	case !found:
		return "", nil
	}
	if err := checkModel(model); err != nil {
		return "", err
	}
	return string(model), nil
}

// unescapePercent decodes once. If form is set, a plus is a space.
func unescapePercent(dst, raw []byte, form bool) ([]byte, bool) {
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '%':
			if i+2 >= len(raw) {
				return nil, false
			}
			first, ok1 := ascii.HexDigit(raw[i+1])
			second, ok2 := ascii.HexDigit(raw[i+2])
			if !ok1 || !ok2 {
				return nil, false
			}
			c = first<<4 | second
			i += 2
		case c == '+' && form:
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst, utf8.Valid(dst)
}

// SplitTarget splits an absolute URL's authority from its path and query.
func SplitTarget(target []byte) (authority, path []byte, absolute, ok bool) {
	if len(target) > 0 && target[0] == '/' {
		return nil, target, false, true
	}
	scheme, rest, found := bytes.Cut(target, []byte("://"))
	if !found || !ascii.EqualFold(scheme, "http") && !ascii.EqualFold(scheme, "https") {
		return nil, nil, false, false
	}
	n := bytes.IndexAny(rest, "/?")
	if n < 1 || rest[n] != '/' {
		return nil, nil, false, false
	}
	return rest[:n], rest[n:], true, true
}
