package fleet

// ModelType says which API a model answers.
type ModelType string

// Types of models that the code distinguishes, or gives to models of its own. See [Model.Type] for all.
const (
	TypeChat     ModelType = "chat"
	TypeRealtime ModelType = "realtime"
	TypeGeneric  ModelType = "generic"
)

// AnswerRequested is the value of [Model.AnswerModel] by which answers have the name that the client has asked for.
const AnswerRequested = "requested"

// The routing algorithms.
const (
	AlgorithmSteps   = "steps"
	AlgorithmRandom  = "random"
	AlgorithmLatency = "latency"
	AlgorithmFlow    = "flow"
)

// The orders of the colos of a step.
const (
	PickOrder       = "order" // as the step names them; by name where it names none
	PickRandom      = "random"
	PickLatency     = "latency"
	PickLeastLoaded = "least_loaded"
	PickWeighted    = "weighted"
)

// Model is a name that clients ask for, and how its requests are served. A model that comes from a table is shared: do
// not modify it.
type Model struct {
	Name string `json:"-"`
	// Other names for the model. Names of models override aliases; of two models with one alias, the lexically first has
	// it.
	Aliases []string `json:"aliases,omitzero" is:"name" own:"yes"`
	// API that the model answers; requests for paths of other types are refused. generic is for all paths but that of WebSocket
	// sessions, which only models of type realtime accept.
	Type ModelType `json:"type" oneof:"chat completion embedding rerank audio image realtime generic"`
	// Pool whose endpoints serve the model. Default: the name of the model.
	Pool string `json:"pool,omitempty" is:"name"`
	// Name under which engines serve the model; names of an endpoint override it. Default: the adapter, else the name of the
	// model.
	UpstreamName string `json:"upstream_name,omitempty" is:"text"`
	// Name of the model in answers: engine leaves the one that the engine gives; requested writes the one that the request has, also in each
	// event of a stream, and holds for the fallbacks of the model too.
	AnswerModel string `json:"answer_model" oneof:"engine requested"`
	// LoRA adapter that the model needs. Its requests go only to endpoints that have the adapter: those whose adapters name it, and
	// those without adapters in their document whose engine lists it, and those with load_adapters. As long as there is none, all without
	// adapters in their document are tried.
	Adapter string `json:"adapter,omitempty" is:"name" own:"yes"`
	// Mark that events carry.
	Beta bool `json:"beta,omitempty"`
	// Choice and order of the colos that a request tries.
	Routing Routing `json:"routing"`
	// Numbers of attempts after the first. None follows the first byte of an answer.
	Retry Retry `json:"retry"`
	// Time limits of one request.
	Timeouts Timeouts `json:"timeouts"`
	// Largest body of a request.
	MaxBody Bytes `json:"max_body" range:"1,1GiB"`
	// Completions that one request may ask for: the larger of n and best_of, times the number of its prompts. Each counts
	// in the cost of the request.
	MaxCompletions int `json:"max_completions" range:"1,1000000"`
	// Inputs of one request for embeddings, documents for a ranking, or texts to score, classify, pool or tokenize.
	MaxInputs int `json:"max_inputs" range:"1,1000000"`
	// Longest context of the engines, in tokens, prompt and answer together. Requests that cannot fit are refused before they take a slot.
	// Default: the longest that the engines state.
	MaxModelLen int `json:"max_model_len,omitempty" range:"1,1000000000" own:"yes"`
	// Other models that serve a request when this one is out of capacity or down, in order, at most 8: names, or {external: NAME} for a
	// model outside of the fleet. An account gets only those that it may use, and those outside only if it has allow_external. The lists of these
	// models do not count.
	Fallback []Fallback `json:"fallback,omitzero" own:"yes"`
	// Words and patterns that the prompts of the model must not have.
	PromptFilter *PromptFilter `json:"prompt_filter,omitempty"`
	// Engine fields that requests may have; file_urls stands for files named by URL or path. Requests with another engine
	// field are refused. Engine fields make an engine choose an adapter, a peer, a file or the like; docs/clients.md lists
	// them.
	AllowFields []string `json:"allow_fields,omitzero" oneof:"adapter_id adapter_source api_base base_url bootstrap_host bootstrap_port bootstrap_room chat_template conversation_params custom_logit_processor data_parallel_rank disagg_prefill_dp_rank disaggregated_params ec_transfer_params extra_body extra_headers fallbacks file_urls id_slot keep_alive kv_transfer_params logits_processors lora lora_path lora_request models ngram_corpus_id nvext options parameters priority prompt_embeds provider request_id rid route routed_dp_rank session_id session_params template user_config vllm_xargs"`
	// Price of tokens, for events and fair queues. Either all models of a pool should have one, in one unit, or none.
	Cost Cost `json:"cost,omitzero"`
	// Names of further request headers that are forwarded to engines.
	ForwardHeaders []string `json:"forward_headers,omitzero" is:"header"` // lower case
	// API key with the role worker by which the model was created, written by the server that took the registration. Default: none, so the
	// model is an operator's.
	RegisteredBy string `json:"registered_by,omitempty" is:"text" own:"yes"` // APIKey.Mark
}

// Routing describes how a request gets its plan.
type Routing struct {
	// steps takes the colos of routing.steps, one step after the other; random takes all colos in another order for each request; latency takes
	// all colos, the nearest to the entry first; flow takes all colos by the weights of the model's document flows/<model>.
	Algorithm string `json:"algorithm" oneof:"steps random latency flow"`
	// Steps in order. A colo that several steps select belongs to the first.
	Steps []Step `json:"steps,omitzero"`
}

// Step selects colos by name or region, and of these the ones that have all of its labels and are near enough. A step
// without names and regions selects from all colos.
type Step struct {
	// Names of colos that the step selects. A step with neither colos nor regions selects from all colos.
	Colos []string `json:"colos,omitempty" is:"name"`
	// Regions whose colos the step selects, beside those of colos.
	Regions []string `json:"regions,omitempty" is:"name"`
	// Labels, all of which a colo must have to be selected.
	Labels map[string]string `json:"labels,omitempty" keys:"name" is:"text"`
	// Longest round trip between the entry and a colo that is selected. Default: any.
	Within Duration `json:"within,omitempty" range:"1ms,10s"` // 0 = any
	// Order within the step: order takes them as colos names them, then by name; random takes another order for each
	// request; latency takes the nearest to the entry first; least_loaded takes the largest fraction of free slots first;
	// weighted draws by the weights. Colos that were last seen full, or that the entry does not reach, come last in each
	// step. Default: order.
	Pick string `json:"pick" oneof:"order random latency least_loaded weighted"`
	// Weights of colos, for pick: weighted only. A colo with weight 3 comes first three times as often as one with weight 1.
	// Colos without a weight, or with weight 0, come after all others.
	Weights map[string]float64 `json:"weights,omitempty" keys:"name" range:"0,1000000"`
	// Greatest number of colos of the step that are tried. Default: all that it selects.
	Attempts int `json:"attempts,omitempty" range:"1,512"` // 0 = all
}

// Retry bounds the further attempts after the first.
type Retry struct {
	// Attempts after failures of endpoints and colos. An attempt that could not connect does not count.
	Errors int `json:"errors" range:"0,16"`
	// Greatest number of further colos that are asked after colos that are out of capacity.
	OutOfCapacity int `json:"out_of_capacity" range:"0,512"`
	// Greatest number of colo servers that a request passes on its way to an engine. 0 allows one, like 1.
	Hops int `json:"hops" range:"0,16"`
	// Size of the largest body with which a colo that is out of capacity forwards a request to the next colo by itself, where
	// that is quicker than an answer to the entry. 0 means never.
	ForwardBelow Bytes `json:"forward_below" range:"0,1GiB"`
}

// Timeouts of one request; none of them is ever 0.
type Timeouts struct {
	// Time to connect to a server or an engine.
	Connect Duration `json:"connect" range:"1ms,5m"`
	// Time from dispatch to an engine until its first byte; for streams and handshakes of realtime sessions.
	FirstByte Duration `json:"first_byte" range:"1ms,24h"`
	// Time between two pieces of a stream.
	Idle Duration `json:"idle" range:"1ms,24h"`
	// Time for the whole request, from its arrival at the entry.
	Total Duration `json:"total" range:"1ms,24h"`
	// Lifetime of a realtime session.
	WebSocket Duration `json:"websocket" range:"1ms,168h"`
}

// Cost is a price in Unit for Per tokens.
type Cost struct {
	// Unit of the prices; events carry it.
	Unit string `json:"unit,omitempty" is:"name"`
	// Price of prompt tokens.
	Input float64 `json:"input,omitempty" range:"0,1000000000"`
	// Price of prompt tokens that the engine had in its cache, at most that of input. Default: that of input.
	CachedInput float64 `json:"cached_input" range:"0,1000000000"`
	// Price of generated tokens.
	Output float64 `json:"output,omitempty" range:"0,1000000000"`
	// Number of tokens that the prices are for. Without it, the model has no price.
	Per int `json:"per,omitempty" range:"1,1000000000"`
}

// Priced reports whether there is a price. The cost of a model without one is unknown, and not 0.
func (c Cost) Priced() bool { return c.Per > 0 && (c.Input > 0 || c.Output > 0) }

// Of returns the price of tokens in Unit, 0 without a price. cached is the part of prompt that came from a cache.
func (c Cost) Of(prompt, cached, completion float64) float64 {
	if c.Per == 0 {
		return 0
	}
	cached = min(cached, prompt)
	return ((prompt-cached)*c.Input + cached*c.CachedInput + completion*c.Output) / float64(c.Per)
}
