package fleet

// UsageAsk is the value of [Endpoint.Usage] that asks the engine to report usage in streams.
const UsageAsk = "ask"

// Engines are the engines that endpoints may run. Do not modify it.
var Engines = []string{"vllm", "sglang", "tgi", "tei", "llamacpp", "ollama", "triton", EngineOpenAI}

// EngineOpenAI is any engine that speaks the API.
const EngineOpenAI = "openai"

// CredentialVariablePrefix begins the names of the environment variables that [Endpoint.Credential] may name. Others, such as
// those with a secret of another program, are never read for an endpoint.
const CredentialVariablePrefix = "COLONNADE_CREDENTIAL_"

// Endpoint is one running engine, with everything resolved. An endpoint that comes from a table is shared: do not
// modify it.
type Endpoint struct {
	Colo string `json:"-"`
	ID   string `json:"-"`
	// Address of the engine. A trailing /v1 is dropped. Two endpoints of a colo cannot have one URL: the one that had it
	// first keeps it, and the other is not in force until the first is gone.
	URL string `json:"url" is:"url" need:"yes" own:"yes"` // in normal form, without a trailing /v1 or slash
	// Software of the engine; openai is any other that speaks the API. The defaults of concurrency and health depend
	// on it.
	Engine string `json:"engine" oneof:"vllm sglang tgi tei llamacpp ollama triton openai"`
	// Pool that the endpoint belongs to.
	Pool string `json:"pool" is:"name" need:"yes" own:"yes"`
	// Slots: the number of requests that the engine works on at once. 0 means none. auto finds the number from the
	// time to the first token of streamed requests. Default: permits.per_endpoint of the pool, else by engine.
	Concurrency int `json:"concurrency" range:"0,10000" or:"auto"` // with Auto, the most
	// Bounds of the number that concurrency: auto finds; accepted only beside it. Default: a quarter of the number that
	// concurrency would have without auto, and four times that number.
	Auto *Auto `json:"auto,omitempty"` // nil unless the document says concurrency: auto
	// A draining endpoint finishes its requests and gets no new ones. Its health is still checked, and its slots count nowhere.
	State string `json:"state" oneof:"active draining" own:"yes"`
	// Why it is draining, for people.
	StateReason string `json:"state_reason,omitempty" is:"text" own:"yes"`
	// Share of the pool's requests, relative to its other endpoints and beside their slots.
	Weight int `json:"weight" range:"1,1000"`
	// Names under which this engine serves models, by model. They override upstream_name of the model.
	Names map[string]string `json:"names,omitempty" keys:"name" is:"text"`
	// Paths of this engine where they differ, by path of the API, such as /v1/rerank.
	Paths map[string]string `json:"paths,omitempty" keys:"path" is:"path"`
	// API key of the engine, as the name of an environment variable of the colo server, or of a file below its
	// -credentials-dir.
	Credential string `json:"credential,omitempty" is:"credential" secret:"yes"`
	// ask makes the engine report usage at the end of streams of chat and completions, also where the client did not
	// ask; the client does not see that report. leave does not.
	Usage string `json:"usage" oneof:"ask leave"`
	// Mark of an engine that others operate; events carry it.
	External bool `json:"external,omitempty"`
	// Health checks of the engine.
	Health Health `json:"health"`
	// The engine's own metrics: how many requests it has, and how full its memory is.
	Metrics Metrics `json:"metrics"`
	// LoRA adapters of the engine; [] means none. Default: those that the engine lists among its models.
	Adapters []string `json:"adapters,omitzero" is:"name"`
	// true for an engine that loads an adapter when the first request for it arrives: it may get requests for adapters that neither
	// adapters nor its list of models names. Engines: vllm, sglang and openai.
	LoadAdapters bool `json:"load_adapters,omitempty"`
	// Address at which the engine publishes the events of its KV cache over ZeroMQ (--kv-events-config of vLLM and SGLang), for pools that
	// choose endpoints by an index of prompts. An engine with several data-parallel ranks publishes at one port after another:
	// tcp://10.0.0.7:5557-5560. Default: none.
	KVEvents string `json:"kv_events,omitempty" is:"kv_events" own:"yes"`
	// API key with the role worker by which the engine was registered, written by the server that took the registration. Such an endpoint has no
	// credential, also none of the defaults, and goes out of force when the key is revoked. Default: none.
	RegisteredBy string `json:"registered_by,omitempty" is:"text" own:"yes"` // APIKey.Mark
}

// Draining reports whether the endpoint gets no new requests until its document says otherwise.
func (e *Endpoint) Draining() bool { return e.State == StateDraining }

// MayLoadAdapters reports whether the software of engines of a kind can load an adapter with the first request for it. Others refuse the
// request, or serve it by the base model.
func MayLoadAdapters(engine string) bool {
	return engine == "vllm" || engine == "sglang" || engine == EngineOpenAI
}

// Serves reports whether the endpoint may get new requests while it is up.
func (e *Endpoint) Serves() bool { return e.Concurrency > 0 && !e.Draining() }

// NameOf returns the name under which the endpoint's engine serves m.
func (e *Endpoint) NameOf(m *Model) string {
	if name, ok := e.Names[m.Name]; ok {
		return name
	}
	return m.UpstreamName
}

// ReadNever is the value of [Metrics.Read] that leaves an engine's metrics alone.
const ReadNever = "never"

// Metrics describes where the engine of an endpoint has its own metrics.
type Metrics struct {
	// Path of the metrics in Prometheus' text format, requested by GET as often as the health path, appended to the URL. Default: by engine;
	// none where the engine has no such page.
	Path string `json:"path,omitempty" is:"path"`
	// auto reads the metrics if there is a path; never does not.
	Read string `json:"read" oneof:"auto never"`
}

// MetricsPath returns the path of the engine's metrics; empty if they are not read.
func (e *Endpoint) MetricsPath() string {
	if e.Metrics.Read == ReadNever {
		return ""
	}
	return e.Metrics.Path
}

// Health describes the health checks of an endpoint.
type Health struct {
	// Path that is requested by GET, appended to the URL. Default: by engine.
	Path string `json:"path" is:"path"`
	// Time between two checks. Default: by engine.
	Interval Duration `json:"interval" range:"10ms,1h"`
	// Time after which a check has failed. Default: by engine.
	Timeout Duration `json:"timeout" range:"10ms,10m"`
	// Time after which an engine that works on requests is taken out because it is silent: for so long it has sent no byte to any of
	// them, and for half of it at least it has answered no health check. Half as long after three clients in a row gave up. It must be
	// longer than an engine may do nothing but compute, without streaming and without answering its health path. Default: by engine.
	Silence Duration `json:"silence" range:"10ms,1h"`
}
