package openai

import "slices"

// Dialect is the family of APIs that a path belongs to. Errors have its shape, and so do the ends of streams.
type Dialect uint8

const (
	DialectOpenAI Dialect = iota
	DialectAnthropic
	DialectOllama
	DialectTGI
	DialectTEI // whose errors have TGI's shape, and other types
)

// String returns the name of the API's owner, in lower case.
func (d Dialect) String() string {
	names := [...]string{"openai", "anthropic", "ollama", "tgi", "tei"}
	if int(d) >= len(names) {
		d = DialectOpenAI
	}
	return names[d]
}

// pathRow is one path that clients may ask for.
type pathRow struct {
	path    string // as clients spell it
	api     API
	dialect Dialect
	engines []string // the kinds that have it, as documents of endpoints name them; nil = all
	through []string // the kinds for which its requests are translated to another path
	free    bool     // it takes no slot, since the engine does next to nothing for it
	unnamed bool     // a body may lack the model, since the engines that have the path have one
	byKind  bool     // the dialect is that of the engines' kind, where that is known: see [Route.DialectWith]
	streams streaming
}

// streaming says which answers are streams.
type streaming uint8

const (
	ifAsked   streaming = iota // "stream": true
	byDefault                  // unless "stream" is false
	always
	never
)

// kindCompatible is the kind of an engine or a proxy that is compatible with OpenAI's API, and of which nothing else is known.
const kindCompatible = "openai"

// paths lists every path but /v1/models/{model}, in the order in which errors list them. Those of TEI were found in
// https://github.com/huggingface/text-embeddings-inference/blob/main/router/src/http/server.rs.
var paths = []pathRow{
	{path: "/v1/chat/completions", api: Chat},
	{path: "/v1/completions", api: Completions},
	{path: "/v1/responses", api: Responses},
	{path: "/v1/messages", api: Messages, dialect: DialectAnthropic, engines: []string{"vllm", "sglang", "llamacpp", "ollama"},
		through: []string{"tgi", "triton", kindCompatible}},
	{path: "/v1/messages/count_tokens", api: CountTokens, dialect: DialectAnthropic, engines: []string{"vllm", "sglang", "llamacpp"},
		through: []string{"tgi", kindCompatible}, free: true, streams: never},
	{path: "/v1/embeddings", api: Embeddings},
	{path: "/v1/rerank", api: Rerank},
	{path: "/v2/rerank", api: Rerank, engines: []string{"vllm"}},
	{path: "/rerank", api: Rerank, engines: []string{"vllm", "tei", "llamacpp"}, unnamed: true, byKind: true},
	{path: "/v1/reranking", api: Rerank, engines: []string{"llamacpp"}, unnamed: true},
	{path: "/reranking", api: Rerank, engines: []string{"llamacpp"}, unnamed: true},
	{path: "/v1/score", api: Score, engines: []string{"vllm", "sglang", kindCompatible}, unnamed: true, streams: never},
	{path: "/score", api: Score, engines: []string{"vllm", kindCompatible}, unnamed: true, streams: never},
	{path: "/v1/classify", api: Classify, engines: []string{"sglang"}, unnamed: true, streams: never},
	{path: "/classify", api: Classify, engines: []string{"vllm", "sglang"}, unnamed: true, streams: never},
	{path: "/pooling", api: Pooling, engines: []string{"vllm"}, unnamed: true, streams: never},
	{path: "/embed", api: Embeddings, dialect: DialectTEI, engines: []string{"tei"}, unnamed: true, streams: never},
	{path: "/predict", api: Classify, dialect: DialectTEI, engines: []string{"tei"}, unnamed: true, streams: never},
	{path: "/v1/tokenize", api: Tokenize, engines: []string{"sglang"}, free: true, unnamed: true, streams: never},
	{path: "/v1/detokenize", api: Tokenize, engines: []string{"sglang"}, free: true, unnamed: true, streams: never},
	{path: "/tokenize", api: Tokenize, engines: []string{"vllm", "sglang", "tgi", "tei", "llamacpp", kindCompatible}, free: true, unnamed: true, byKind: true, streams: never},
	{path: "/detokenize", api: Tokenize, engines: []string{"vllm", "sglang", "llamacpp", kindCompatible}, free: true, unnamed: true, streams: never},
	{path: "/decode", api: Tokenize, dialect: DialectTEI, engines: []string{"tei"}, free: true, unnamed: true, streams: never},
	{path: "/infill", api: Infill, engines: []string{"llamacpp"}, unnamed: true},
	{path: "/completion", api: LlamaCompletions, engines: []string{"llamacpp"}, unnamed: true},
	{path: "/completions", api: LlamaCompletions, engines: []string{"llamacpp"}, unnamed: true},
	{path: "/v1/images/generations", api: Images},
	{path: "/v1/images/edits", api: Images},
	{path: "/v1/images/variations", api: Images},
	{path: "/v1/audio/speech", api: Speech},
	{path: "/v1/audio/transcriptions", api: Transcriptions},
	{path: "/v1/audio/translations", api: Transcriptions},
	{path: "/api/chat", api: OllamaChat, dialect: DialectOllama, engines: []string{"ollama", "sglang"}, streams: byDefault},
	{path: "/api/generate", api: OllamaGenerate, dialect: DialectOllama, engines: []string{"ollama", "sglang"}, streams: byDefault},
	{path: "/api/embed", api: OllamaEmbed, dialect: DialectOllama, engines: []string{"ollama"}, streams: never},
	{path: "/api/embeddings", api: OllamaEmbed, dialect: DialectOllama, engines: []string{"ollama"}, streams: never},
	{path: "/generate", api: Generate, dialect: DialectTGI, engines: []string{"tgi"}, unnamed: true, streams: never},
	{path: "/generate_stream", api: Generate, dialect: DialectTGI, engines: []string{"tgi"}, unnamed: true, streams: always},
	{path: "/v1/realtime", api: Realtime},
	{path: "/v1/models", api: ListModels},
	{path: "/api/tags", api: OllamaTags, dialect: DialectOllama},
	{path: "/api/ps", api: OllamaRunning, dialect: DialectOllama},
	{path: "/api/version", api: OllamaVersion, dialect: DialectOllama},
	{path: "/api/show", api: OllamaShow, dialect: DialectOllama, streams: never},
}

var rowsByPath = func() map[string]*pathRow {
	m := make(map[string]*pathRow, len(paths))
	for i := range paths {
		m[paths[i].path] = &paths[i]
	}
	return m
}()

// routeOf returns the route of a path as clients spell it; zero for an unknown one.
func routeOf(path []byte) Route {
	r := rowsByPath[string(path)]
	if r == nil {
		return Route{}
	}
	return Route{API: r.api, Path: r.path, Dialect: r.dialect}
}

// Free reports whether requests of the route take no slot of an engine.
func (r Route) Free() bool {
	row := rowsByPath[r.Path]
	return row != nil && row.free
}

// Support is what an engine has for a route.
type Support uint8

const (
	Unsupported Support = iota // the engine has no such path
	Passed                     // it has the path: requests pass unchanged
	Translated                 // it has another path that does the same: requests and answers are translated
)

// EngineHas returns what engines of a kind, as documents of endpoints name it, have for a route. An unknown kind is one that is compatible with
// OpenAI's API. That an engine may have a path does not mean that each of its versions has it: see [LackOf].
func EngineHas(kind string, r Route) Support {
	if row := rowsByPath[r.Path]; row != nil {
		return row.support(kind)
	}
	return Unsupported
}

func (row *pathRow) support(kind string) Support {
	if !slices.Contains(kinds, kind) {
		kind = kindCompatible
	}
	switch {
	case row.engines == nil || slices.Contains(row.engines, kind):
		return Passed
	case slices.Contains(row.through, kind):
		return Translated
	}
	return Unsupported
}

// OfSomeEngines reports whether only some kinds of engines have the path of the route.
func (r Route) OfSomeEngines() bool {
	row := rowsByPath[r.Path]
	return row != nil && row.engines != nil
}

// PathInfo describes a path for the documentation.
type PathInfo struct {
	Methods, Path string
	Types         []string // of models that answer it; empty for a path about the models themselves
	Passed        []string // kinds of engines that have it; empty for any
	Translated    []string // kinds of engines for which its requests are translated
	Free          bool     // its requests take no slot
}

// AllPaths returns the paths that clients may ask for, but for /v1/models/{model}.
func AllPaths() (all []PathInfo) {
	for i := range paths {
		row := &paths[i]
		info := PathInfo{Methods: row.api.methods(), Path: row.path, Passed: row.engines, Translated: row.through, Free: row.free}
		for _, name := range modelTypes {
			if TypeServes(name, row.api) {
				info.Types = append(info.Types, name)
			}
		}
		all = append(all, info)
	}
	return all
}
