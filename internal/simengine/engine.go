package simengine

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/internal/prefixcache"
)

// Config states which models an engine serves and how fast. The zero value of a field means its default; a negative
// duration means none.
type Config struct {
	Models []string // names it serves; empty accepts any name, and lists "demo"
	Slots  int      // requests that run side by side; default 4

	TTFT   time.Duration // from getting a slot to the first token; default 50 ms
	ITL    time.Duration // from one token to the next; default 10 ms
	Tokens int           // tokens of an answer, unless the request wants fewer; default 64

	// Knee is the number of requests that can run before they slow each other down: with more, TTFT and ITL grow in
	// proportion, and the throughput of the batch stays the same. Default: they never do.
	Knee int

	// Kind is a kind of fleet.Engines that the engine plays: it has the paths, the words of errors and the ends of streams of that kind, and its pages
	// about itself, and no others. Empty has OpenAI's paths and pages of several kinds, and identifies itself as none.
	Kind        string
	Type        string // of all its models, where the kind's paths and pages depend on it: chat (default), embedding, rerank or audio
	MaxModelLen int    // longest context, for the pages of its kind; default 8192
	Dev         bool   // vllm: with the page of its development mode

	LoadsAdapters bool // any other name is an adapter that it loads with the first request, as vLLM does with a resolver

	Cached int // tokens at the beginning of each prompt that count as cached; default none

	CacheBlocks int           // capacity of the prefix cache, which replaces Cached; default: no cache
	BlockTokens int           // tokens of a block of it; default 16
	Prefill     time.Duration // on top of TTFT for each token of a prompt that is not cached, one prompt after another; default none

	Record int          // how many of the last requests to keep for Received; default none
	Watch  func(Job)    // called with each inference request when it has left; it must be quick and safe for concurrent use
	Logger *slog.Logger // default: none
}

func (c Config) withDefaults() Config {
	c.Slots = max(cmp.Or(c.Slots, 4), 1)
	c.Tokens = max(cmp.Or(c.Tokens, 64), 1)
	c.TTFT = max(cmp.Or(c.TTFT, 50*time.Millisecond), 0)
	c.ITL = max(cmp.Or(c.ITL, 10*time.Millisecond), 0)
	c.BlockTokens = max(cmp.Or(c.BlockTokens, 16), 1)
	c.Type = cmp.Or(c.Type, "chat")
	c.MaxModelLen = max(cmp.Or(c.MaxModelLen, 8192), 0)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Stats are an engine's counts since it was created.
type Stats struct {
	Running int `json:"running"` // requests that hold a slot
	Waiting int `json:"waiting"` // requests queued behind them
	Peak    int `json:"peak"`    // the most requests at once, running and waiting together

	Served  uint64 `json:"served"`  // answered in full
	Aborted uint64 `json:"aborted"` // the client left first
	Faulted uint64 `json:"faulted"` // got a slot and were answered according to a fault

	Requests uint64 `json:"requests"`  // inference requests that arrived, whatever their outcome
	Unknown  uint64 `json:"unknown"`   // requests to an unknown path
	Bytes    uint64 `json:"bytes_out"` // bytes of answers, except WebSocket, that the network has taken
	Tokens   uint64 `json:"tokens"`    // tokens generated

	Loads uint64 `json:"adapter_loads"` // of adapters, with the first request

	// Reused counts the requests on a connection that must not be used again after its last answer (FaultBothLengths).
	Reused uint64 `json:"reused"`
	// CloseCode is the code of the last WebSocket close frame received.
	CloseCode int64 `json:"close_code,omitempty"`
}

// Engine is a simulated engine. It is an http.Handler; Serve runs it on a listener.
type Engine struct {
	c       Config
	started time.Time
	routes  map[string]http.HandlerFunc // by method and path
	batch   *batch
	aside   *batch // of requests that take no slot
	lexicon lexicon
	prefix  *prefixes // nil: no cache
	events  publisher // of the cache
	pace    atomic.Pointer[pace]
	finish  atomic.Pointer[chan struct{}] // of the answers that begin now; see Finish
	faults  faultTable
	record  recorder

	prefillMu sync.Mutex // guards the field below
	prefills  prefixcache.Prefill

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	gate   gate

	adapters atomic.Pointer[[]string] // loaded by LoadAdapters
	unlisted atomic.Pointer[[]string] // loaded by RunAdapters

	requests, unknown, bytes, tokens, reused, loads atomic.Uint64
	prompted, cached                                atomic.Uint64 // tokens of prompts; of these, found in the cache
	closeCode                                       atomic.Int64
}

// New returns an engine. It starts nothing until a request comes.
func New(c Config) *Engine {
	c = c.withDefaults()
	e := &Engine{c: c, started: time.Now(), record: recorder{keep: c.Record}}
	e.batch, e.aside = &batch{slots: c.Slots, watch: c.Watch}, &batch{slots: math.MaxInt}
	e.prefix, e.prefills.PerToken = newPrefixes(c), c.Prefill
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.pace.Store(&pace{ttft: c.TTFT, itl: c.ITL})
	e.finish.Store(newFinish())
	e.routes = map[string]http.HandlerFunc{
		"POST /v1/chat/completions":     e.infer(readJSON, chat),
		"POST /v1/completions":          e.infer(readJSON, completion),
		"POST /v1/responses":            e.infer(readJSON, response),
		"POST /v1/embeddings":           e.infer(readJSON, embeddings),
		"POST /v1/rerank":               e.infer(readJSON, rerank),
		"POST /v1/images/generations":   e.infer(readJSON, generateImage),
		"POST /v1/images/edits":         e.infer(readForm, editImage),
		"POST /v1/images/variations":    e.infer(readForm, generateImage),
		"POST /v1/audio/speech":         e.infer(readJSON, speech),
		"POST /v1/audio/transcriptions": e.infer(readForm, transcription),
		"POST /v1/audio/translations":   e.infer(readForm, transcription),
		"GET /v1/realtime":              e.realtime,
		"GET /v1/models":                e.probe(e.listModels),
		"GET /health":                   e.probe(e.healthy),
		"GET /health/ready":             e.probe(e.healthy),
		"GET /api/version":              e.probe(e.version),
		"GET /metrics":                  e.metrics,
		"GET /stats":                    e.serveStats,
		"GET /requests":                 e.serveReceived,
		"GET /faults":                   e.listFaults,
		"POST /faults":                  e.postFault,
		"DELETE /faults":                e.deleteFaults,
	}
	e.setKind()
	e.setLoading()
	return e
}

// ServeHTTP answers one request. It panics with http.ErrAbortHandler, on which net/http cuts the connection, where an
// answer must not end properly.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.gate.enter() {
		panic(http.ErrAbortHandler)
	}
	defer e.gate.leave()
	if h, ok := e.routes[r.Method+" "+r.URL.Path]; ok {
		h(w, r)
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/v1/models/"); ok && r.Method == http.MethodGet {
		e.getModel(w, name)
		return
	}
	if r.Method == http.MethodPost && e.tritonModel(w, r.URL.Path) {
		return
	}
	e.unknown.Add(1)
	writeError(w, apiError{Status: http.StatusNotFound, Type: "invalid_request_error", Code: "unknown_url",
		Message: "no such path: " + r.Method + " " + r.URL.Path})
}

// Stats returns the current counts.
func (e *Engine) Stats() Stats {
	st := Stats{
		Requests: e.requests.Load(), Unknown: e.unknown.Load(), Bytes: e.bytes.Load(),
		Tokens: e.tokens.Load(), Loads: e.loads.Load(), Reused: e.reused.Load(), CloseCode: e.closeCode.Load(),
	}
	e.batch.fill(&st)
	return st
}

// ResetPeak sets Stats.Peak to the number of requests at this moment.
func (e *Engine) ResetPeak() { e.batch.resetPeak() }

// Close ends every request, cutting its connection, and waits until all are over. Later requests are cut at once.
func (e *Engine) Close() {
	e.cancel()
	e.gate.close()
}

// serves reports whether the engine serves model.
func (e *Engine) serves(model string) bool {
	return len(e.c.Models) == 0 || slices.Contains(e.c.Models, model) || slices.Contains(e.loaded(), model) || slices.Contains(e.running(), model) ||
		e.c.LoadsAdapters && e.loadsNow(model)
}

// LoadAdapters replaces the adapters that the engine serves beside its models.
func (e *Engine) LoadAdapters(names ...string) { e.adapters.Store(&names) }

// RunAdapters replaces the adapters that only the metrics show, as running: vLLM with several API servers lists only what was loaded by the
// one that is asked.
func (e *Engine) RunAdapters(names ...string) { e.unlisted.Store(&names) }

func (e *Engine) running() []string {
	if names := e.unlisted.Load(); names != nil {
		return *names
	}
	return nil
}

func (e *Engine) loaded() []string {
	if names := e.adapters.Load(); names != nil {
		return *names
	}
	return nil
}
