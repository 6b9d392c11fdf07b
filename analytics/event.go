package analytics

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Kind is the kind of node that an event comes from.
type Kind string

const (
	KindRequest   Kind = "request"   // of an entry, one for each client request
	KindInference Kind = "inference" // of a colo, one for each granted permit; the one that bills
	KindForward   Kind = "forward"   // of a colo, one for each request that it has forwarded to another colo; nothing in it is billed
)

// Phase is the begin or the end of a request or a permit.
type Phase string

const (
	PhaseBegin Phase = "begin"
	PhaseEnd   Phase = "end"
)

// Outcome is how a request ended.
type Outcome string

const (
	OutcomeCompleted   Outcome = "completed"
	OutcomeClientGone  Outcome = "client_gone"
	OutcomeEngineError Outcome = "engine_error"
	OutcomeTimeout     Outcome = "timeout"
	OutcomeRefused     Outcome = "refused"
	OutcomeMoved       Outcome = "moved"
	OutcomeDrained     Outcome = "drained"
	OutcomeCrashed     Outcome = "crashed" // the process was killed (written by its next run), or a handler panicked
)

// Event describes one request at one node, or one permit. A begin and its end have the same EventID. An unknown field is
// zero. Strings are names from the fleet table and ids, never a prompt, a completion or the secret of a key.
type Event struct {
	EventID         string    `json:"event_id"` // see EventID
	RequestID       string    `json:"request_id"`
	ClientRequestID string    `json:"client_request_id,omitempty"`
	Kind            Kind      `json:"kind"`
	Phase           Phase     `json:"phase"`
	Time            time.Time `json:"time"` // zero: when it is appended
	Node            string    `json:"node"` // empty: the node of the journal
	ColoID          string    `json:"colo_id,omitempty"`
	SourceColoID    string    `json:"source_colo_id,omitempty"` // where the request entered
	ColoPath        []string  `json:"colo_path,omitempty"`      // servers that the request visited, in order

	Account  string `json:"account,omitempty"`
	Key      string `json:"key,omitempty"`   // id of the API key, or jwt:ISSUER:SUBJECT of a token; empty for a client without one
	Model    string `json:"model,omitempty"` // the model's own name; of an unknown model the name in the request, unless that may be a key
	Pool     string `json:"pool,omitempty"`  // empty if the table does not have Model
	Endpoint string `json:"endpoint,omitempty"`
	Engine   string `json:"engine,omitempty"`

	Status   int     `json:"status,omitempty"` // HTTP
	Code     string  `json:"code,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Outcome  Outcome `json:"outcome,omitempty"` // of an end
	Attempts int     `json:"attempts,omitempty"`

	RequestTime      Milliseconds `json:"request_time_ms,omitempty"`
	QueuingTime      Milliseconds `json:"queuing_time_ms,omitempty"`
	InferenceTime    Milliseconds `json:"inference_time_ms,omitempty"`
	TimeToFirstToken Milliseconds `json:"time_to_first_token_ms,omitempty"`

	PromptTokens     int     `json:"prompt_tokens,omitempty"`
	CompletionTokens int     `json:"completion_tokens,omitempty"`
	CachedTokens     int     `json:"cached_tokens,omitempty"`
	TokensEstimated  int     `json:"tokens_estimated,omitempty"` // deltas of an answer without usage
	AudioSeconds     float64 `json:"audio_seconds,omitempty"`    // from engines that count time instead of tokens
	Cost             float64 `json:"cost,omitempty"`             // of all these tokens, in CostUnit
	CostUnit         string  `json:"cost_unit,omitempty"`

	BytesIn        int64 `json:"bytes_in,omitempty"`
	BytesOut       int64 `json:"bytes_out,omitempty"`
	MessagesIn     int64 `json:"messages_in,omitempty"`
	MessagesOut    int64 `json:"messages_out,omitempty"`
	LocalQueueSize int   `json:"local_queue_size,omitempty"` // requests waiting on arrival

	Streamed         bool `json:"streamed,omitempty"`
	WebSocket        bool `json:"websocket,omitempty"`
	Beta             bool `json:"beta,omitempty"`
	ExternalEndpoint bool `json:"external_endpoint,omitempty"`
	QueuedInColo     bool `json:"queued_in_colo,omitempty"`
	RefusedByEntry   bool `json:"refused_by_entry,omitempty"` // no colo was asked: the account floods the model, and all colos are full
	Partial          bool `json:"partial,omitempty"`          // ended early
}

// EventID derives the id of an event from what the event is about. The same values give the same id, by which a reader removes events
// that were delivered twice; different permits and requests have different ones. process names the process that logs the event, and
// number counts its permits. For KindRequest the number is 0 and the node suffices, since an entry makes the request id at random.
func EventID(requestID, process string, number int, kind Kind) string {
	var room [256]byte
	b := append(room[:0], requestID...)
	b = append(b, 0)
	b = append(b, process...)
	b = append(b, 0)
	b = strconv.AppendInt(b, int64(number), 10)
	b = append(b, 0)
	b = append(b, kind...)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Milliseconds is a duration that JSON has as a number of milliseconds, rounded to microseconds.
type Milliseconds time.Duration

// Std returns d as a time.Duration.
func (d Milliseconds) Std() time.Duration { return time.Duration(d) }

// MarshalJSON implements json.Marshaler.
func (d Milliseconds) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil), nil }

// AppendJSON appends d to dst as MarshalJSON encodes it.
func (d Milliseconds) AppendJSON(dst []byte) []byte {
	us := time.Duration(d).Round(time.Microsecond).Microseconds()
	return strconv.AppendFloat(dst, float64(us)/1e3, 'f', -1, 64)
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Milliseconds) UnmarshalJSON(b []byte) error {
	var ms float64
	if err := json.Unmarshal(b, &ms); err != nil {
		return fmt.Errorf("cannot read %q as milliseconds: %w", b, err)
	}
	*d = Milliseconds(math.Round(ms*1e3) * 1e3)
	return nil
}
