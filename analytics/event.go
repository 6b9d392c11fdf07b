package analytics

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Kind is what an event is about.
type Kind string

const (
	KindRequest   Kind = "request"   // of an entry, one for each client request
	KindInference Kind = "inference" // of a colo, one for each granted permit; the one that bills
	KindForward   Kind = "forward"   // of a colo, one for each request that it has forwarded to another colo; nothing in it is billed
	KindEngine    Kind = "engine"    // of a colo, one for each incident of an engine with a worker, or of its GPUs; about no request, and nothing in it is billed
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

// SchemaVersion is the version of Event. A field keeps its name, its type and its meaning for good. A version adds fields, which
// readers of an older one ignore, and which older events do not have.
const SchemaVersion = 3

// Event describes one request at one node, one permit, or one incident of an engine. A begin and its end have the same EventID. An unknown field is
// zero. Strings are names from the fleet table and ids, never a prompt, a completion or the secret of a key.
//
// The tag on restricts a field to events of kinds, and to the phase end. The tag since is the version of the schema with which a field came;
// without it, 1. The comments, the tags and the types are the table in docs/events.md.
type Event struct {
	// Names the event: a begin and its end have the same, and so has an event that is delivered twice. Of several ends, one counts.
	EventID string `json:"event_id"`
	// The id that the entry gave the request: 128 random bits in hex, the same in the events of all nodes, and the client's response header
	// x-request-id. Empty if the event is about an engine.
	RequestID string `json:"request_id"`
	// The client's own request header x-request-id, if it is 8 to 64 letters, digits and . _ -
	ClientRequestID string `json:"client_request_id,omitempty"`
	// Trace of OpenTelemetry that has the spans of the request: 32 hexadecimal digits; none if the node has recorded no spans of the request.
	TraceID string `json:"trace_id,omitempty"`
	// Subject of the event: request, inference, forward or engine; see the table above.
	Kind Kind `json:"kind"`
	// begin is written before the request is sent on, end when it is over. Only an end counts: a begin without an end is of a request that
	// runs, or ran when the process was killed.
	Phase Phase `json:"phase"`
	// When the event was written, in RFC 3339 with nanoseconds; of an end, when the request was over; of an engine, when its worker noticed the
	// incident, by the worker's clock.
	Time time.Time `json:"time"`
	// Node that wrote the event.
	Node string `json:"node"`
	// The colo of the node; of a request, the colo that served it, or none.
	ColoID string `json:"colo_id,omitempty"`
	// Name of the entry where the request came in, not of a colo.
	SourceColoID string `json:"source_colo_id,omitempty"`
	// Servers that the request visited, as COLO/NODE, in order, as the node knows them; the event of the entry has all.
	ColoPath []string `json:"colo_path,omitempty"`

	// Account that is billed; none for a client that was not identified.
	Account string `json:"account,omitempty"`
	// Id of the API key (colonnade keys list has the ids), or jwt:ISSUER:SUBJECT of a token; none for a client without one. Never a secret.
	Key string `json:"key,omitempty"`
	// The model's own name, also if the client used an alias; of an unknown model the name in the request, unless that may be a key.
	Model string `json:"model,omitempty"`
	// The model that the client has asked for, if a fallback of it has served the request instead.
	RequestedModel string `json:"requested_model,omitempty" on:"request" since:"2"`
	// Pool of the model; none for an unknown model.
	Pool string `json:"pool,omitempty"`
	// Engine that had the permit's slot, or that the incident is about, by the name of its document.
	Endpoint string `json:"endpoint,omitempty" on:"inference engine"`
	// Software of that engine, such as vllm.
	Engine string `json:"engine,omitempty" on:"inference engine"`
	// Worker that reported the incident, by the name of its document.
	Worker string `json:"worker,omitempty" on:"engine" since:"3"`
	// Machine of that worker.
	Machine string `json:"machine,omitempty" on:"engine" since:"3"`
	// UUID of the GPU that the incident is about.
	GPU string `json:"gpu,omitempty" on:"engine" since:"3"`

	// HTTP status of the response; 101 for a realtime session; none if the client left before it.
	Status int `json:"status,omitempty" on:"end"`
	// Code of our own error, as in the response; none if the request was served.
	Code string `json:"code,omitempty" on:"end"`
	// Reason of a refusal, or of a failure, as in the response header x-colonnade-reason; of an engine, the sort of incident: engine_exit,
	// engine_hung, gpu_xid, gpu_ecc or gpu_lost.
	Reason string `json:"reason,omitempty" on:"end"`
	// One sentence about the incident, of its worker.
	Detail string `json:"detail,omitempty" on:"engine" since:"3"`
	// How the request ended: completed, client_gone, engine_error, timeout, refused, moved, drained or crashed.
	Outcome Outcome `json:"outcome,omitempty" on:"end"`
	// How many times the request was sent to an engine so far, in all colos.
	Attempts int `json:"attempts,omitempty" on:"request inference"`

	// From the arrival of the whole request at the node to its end. Milliseconds.
	RequestTime Milliseconds `json:"request_time_ms,omitempty" on:"end"`
	// Time in queues: of an inference, in the queue of its server; of a request, in all queues together. Milliseconds.
	QueuingTime Milliseconds `json:"queuing_time_ms,omitempty"`
	// For how long the permit was held: from the grant to its release, which is before the end if the engine has said everything before the client has read it. Milliseconds.
	InferenceTime Milliseconds `json:"inference_time_ms,omitempty" on:"inference end"`
	// From the arrival of the whole request at the node to the first byte of the answer, queues included; of an answer in one piece, to
	// the whole answer. Milliseconds.
	TimeToFirstToken Milliseconds `json:"time_to_first_token_ms,omitempty" on:"end"`

	// Tokens of the prompt, as the engine reported them.
	PromptTokens int `json:"prompt_tokens,omitempty" on:"inference end"`
	// Tokens of the answer, as the engine reported them.
	CompletionTokens int `json:"completion_tokens,omitempty" on:"inference end"`
	// Those of prompt_tokens that the engine had in its cache.
	CachedTokens int `json:"cached_tokens,omitempty" on:"inference end"`
	// Tokens of the answer that are in no report of the engine, counted from the pieces of the answer: the client left before the report. They
	// are not in completion_tokens.
	TokensEstimated int `json:"tokens_estimated,omitempty" on:"inference end"`
	// Length of the audio, from engines that count time instead of tokens. Seconds.
	AudioSeconds float64 `json:"audio_seconds,omitempty" on:"inference end"`
	// Price of prompt_tokens, with cached_tokens at a price of their own, completion_tokens and tokens_estimated by the cost of the model's document, in cost_unit.
	Cost float64 `json:"cost,omitempty" on:"inference end"`
	// Unit of cost, from the model's document; none for a model without a price.
	CostUnit string `json:"cost_unit,omitempty" on:"inference end"`

	// Bytes of the request's body; of a realtime session, of all that the client has sent.
	BytesIn int64 `json:"bytes_in,omitempty"`
	// Bytes of the response's body; of a realtime session, of all that the client was sent. None of our own errors.
	BytesOut int64 `json:"bytes_out,omitempty" on:"end"`
	// Messages of a realtime session from the client.
	MessagesIn int64 `json:"messages_in,omitempty" on:"inference end"`
	// Messages of a realtime session to the client.
	MessagesOut int64 `json:"messages_out,omitempty" on:"inference end"`
	// Requests that waited in the pool's queue when this one arrived.
	LocalQueueSize int `json:"local_queue_size,omitempty" on:"inference"`

	// The client asked for a stream.
	Streamed bool `json:"streamed,omitempty"`
	// A realtime session.
	WebSocket bool `json:"websocket,omitempty"`
	// The model's document says beta.
	Beta bool `json:"beta,omitempty"`
	// The endpoint's document says external.
	ExternalEndpoint bool `json:"external_endpoint,omitempty" on:"inference"`
	// The request has waited in a queue, of any colo.
	QueuedInColo bool `json:"queued_in_colo,omitempty"`
	// The entry refused the request without asking any colo: the account floods the model, and all colos are full.
	RefusedByEntry bool `json:"refused_by_entry,omitempty" on:"request end"`
	// The request ended early: the client did not get the whole answer.
	Partial bool `json:"partial,omitempty" on:"end"`
}

// IncidentID returns the id of the event about an incident: of a worker, of the process that boot names, and its number there. All servers that
// report one incident give it the same id.
func IncidentID(worker, boot string, number int) string {
	return EventID(worker, boot, number, KindEngine)
}

// EventID derives the id of an event from what the event is about. The same values give the same id, by which a reader removes events
// that were delivered twice; different permits and requests have different ones. process names the process that logs the event, and
// number counts its permits. An entry, which makes the request's id at random, makes that of its event so, too.
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
	if us < 0 {
		dst, us = append(dst, '-'), -us
	}
	dst = strconv.AppendInt(dst, us/1000, 10)
	if us %= 1000; us == 0 {
		return dst
	}
	dst = append(dst, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
	return bytes.TrimRight(dst, "0")
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
