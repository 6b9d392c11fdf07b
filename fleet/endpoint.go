package fleet

// Whether to ask an endpoint for usage in streams.
const (
	UsageAsk   = "ask"
	UsageLeave = "leave"
)

// Endpoint is one running engine, with everything resolved. An endpoint that comes from a table is shared: do not
// modify it.
type Endpoint struct {
	Colo        string            `json:"-"`
	ID          string            `json:"-"`
	URL         string            `json:"url" is:"url" need:"yes" own:"yes"` // http or https, in normal form, without a trailing /v1 or slash
	Engine      string            `json:"engine" oneof:"vllm sglang tgi tei llamacpp ollama triton openai"`
	Pool        string            `json:"pool" is:"name" need:"yes" own:"yes"`
	Concurrency int               `json:"concurrency" range:"0,10000" or:"auto"` // slots; 0 = no request is sent there; with Auto, the most
	Auto        *Auto             `json:"auto,omitempty"`                        // nil unless the document says concurrency: auto
	Weight      int               `json:"weight" range:"1,1000"`
	Names       map[string]string `json:"names,omitempty" keys:"name" is:"word"`             // model → what this engine calls it
	Paths       map[string]string `json:"paths,omitempty" keys:"path" is:"path"`             // our path → the engine's
	Credential  string            `json:"credential,omitempty" is:"credential" secret:"yes"` // env:NAME or file:PATH, read by the colo server
	Usage       string            `json:"usage" oneof:"ask leave"`
	External    bool              `json:"external,omitempty"` // not ours: paid for
	Health      Health            `json:"health"`

	_ struct{} `unsupported:"adapters"`
}

// Health says how an endpoint is probed.
type Health struct {
	Path     string   `json:"path" is:"path"` // appended to the endpoint's URL
	Interval Duration `json:"interval" range:"10ms,1h"`
	Timeout  Duration `json:"timeout" range:"10ms,10m"`
}
