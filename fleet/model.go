package fleet

// ModelType says which API a model answers.
type ModelType string

// The types of models.
const (
	TypeChat       ModelType = "chat"
	TypeCompletion ModelType = "completion"
	TypeEmbedding  ModelType = "embedding"
	TypeRerank     ModelType = "rerank"
	TypeAudio      ModelType = "audio"
	TypeImage      ModelType = "image"
	TypeRealtime   ModelType = "realtime"
	TypeGeneric    ModelType = "generic"
)

// The routing algorithms, and the orders in which a step yields its colos.
const (
	AlgorithmRandom = "random"
	AlgorithmSteps  = "steps"
	PickOrder       = "order" // as the step names them; by name where it names none
	PickRandom      = "random"
)

// Model is what a client asks for by name. A model that comes from a table is shared: do not modify it.
type Model struct {
	Name           string    `json:"-"`
	Aliases        []string  `json:"aliases,omitzero" is:"name" own:"yes"`
	Type           ModelType `json:"type" oneof:"chat completion embedding rerank audio image realtime generic"`
	Pool           string    `json:"pool,omitempty" is:"name"`          // default: Name
	UpstreamName   string    `json:"upstream_name,omitempty" is:"word"` // what engines call it; default: Name
	Beta           bool      `json:"beta,omitempty"`
	Routing        Routing   `json:"routing"`
	Retry          Retry     `json:"retry"`
	Timeouts       Timeouts  `json:"timeouts"`
	MaxBody        Bytes     `json:"max_body" range:"1,1GiB"`
	Cost           Cost      `json:"cost,omitzero"`
	ForwardHeaders []string  `json:"forward_headers,omitzero" is:"header"` // lower case

	_ struct{} `unsupported:"adapter"`
}

// Routing says how a request for the model gets its plan.
type Routing struct {
	Algorithm string `json:"algorithm" oneof:"random steps"`
	Steps     []Step `json:"steps,omitzero"` // of AlgorithmSteps, in order
}

// Step selects colos that are named, or in a named region; all if it names neither.
type Step struct {
	Colos    []string `json:"colos,omitempty" is:"name"`
	Regions  []string `json:"regions,omitempty" is:"name"`
	Pick     string   `json:"pick" oneof:"order random"`
	Attempts int      `json:"attempts,omitempty" range:"1,512"` // at most so many colos; 0 = all that the step selects
}

// Retry bounds the further attempts after the first.
type Retry struct {
	Errors        int `json:"errors" range:"0,16"`
	OutOfCapacity int `json:"out_of_capacity" range:"0,512"`
	Hops          int `json:"hops" range:"0,16"`

	_ struct{} `unsupported:"forward_below"`
}

// Timeouts of one request; none of them is ever 0.
type Timeouts struct {
	Connect   Duration `json:"connect" range:"1ms,5m"`
	FirstByte Duration `json:"first_byte" range:"1ms,24h"` // from dispatch; of streams
	Idle      Duration `json:"idle" range:"1ms,24h"`       // between two reads of a stream
	Total     Duration `json:"total" range:"1ms,24h"`
	WebSocket Duration `json:"websocket" range:"1ms,168h"` // life of a connection
}

// Cost is a price in Unit for Per tokens.
type Cost struct {
	Unit   string  `json:"unit,omitempty" is:"name"`
	Input  float64 `json:"input,omitempty" range:"0,1000000000"`
	Output float64 `json:"output,omitempty" range:"0,1000000000"`
	Per    int     `json:"per,omitempty" range:"1,1000000000"`
}

// Priced says whether there is a price: that of a model without one is not known, and not 0.
func (c Cost) Priced() bool { return c.Per > 0 && (c.Input > 0 || c.Output > 0) }
