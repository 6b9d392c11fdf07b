package tracing

import (
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"colonnade/analytics"
)

// The spans of a request, as the documentation calls them.
const (
	spanEntry  = "entry"
	spanQueue  = "queue"
	spanHop    = "hop"
	spanEngine = "engine"
)

// Attributes that OpenTelemetry has: those of HTTP and servers by version 1.44.0 of the semantic conventions, those of gen_ai by the
// conventions in development (open-telemetry/semantic-conventions-genai). Our own are for what these lack.
const (
	keyMethod       = "http.request.method"
	keyRoute        = "http.route"
	keyStatus       = "http.response.status_code"
	keyScheme       = "url.scheme"
	keyPath         = "url.path"
	keyAddress      = "server.address"
	keyPort         = "server.port"
	keyErrorType    = "error.type"
	keyOperation    = "gen_ai.operation.name"
	keyProvider     = "gen_ai.provider.name"
	keyModel        = "gen_ai.request.model"
	keyStream       = "gen_ai.request.stream"
	keyMaxTokens    = "gen_ai.request.max_tokens"
	keyFirstChunk   = "gen_ai.response.time_to_first_chunk"
	keyInputTokens  = "gen_ai.usage.input_tokens"
	keyOutputTokens = "gen_ai.usage.output_tokens"
	keyCachedTokens = "gen_ai.usage.cache_read.input_tokens"

	keySpan            = "colonnade.span"
	keyRequestID       = "colonnade.request_id"
	keyClientRequestID = "colonnade.client_request_id"
	keyAccount         = "colonnade.account"
	keyPool            = "colonnade.pool"
	keyColo            = "colonnade.colo"
	keyServer          = "colonnade.server"
	keyEndpoint        = "colonnade.endpoint"
	keyPriority        = "colonnade.priority"
	keyVerdict         = "colonnade.verdict"
	keyOutcome         = "colonnade.outcome"
	keyReason          = "colonnade.reason"
	keyAttempt         = "colonnade.attempt"
	keyAttempts        = "colonnade.attempts"
	keyQueued          = "colonnade.queued_ms"
	keyQueueLength     = "colonnade.queue_length"
)

// Attribute describes one attribute for the documentation.
type Attribute struct {
	Name    string
	Spans   []string // that may have it
	Meaning string
}

// Attributes returns all attributes of spans, in the order of the documentation.
func Attributes() []Attribute {
	all := []string{spanEntry, spanHop, spanQueue, spanEngine}
	ends := []string{spanEntry, spanEngine}
	return []Attribute{
		{keySpan, all, "which of the four kinds of spans it is: `entry`, `hop`, `queue` or `engine`"},
		{keyRequestID, all, "our id of the request, as in events and in the header `x-request-id`"},
		{keyClientRequestID, []string{spanEntry}, "the client's own id, if it has sent one that can be kept"},
		{keyAccount, []string{spanEntry, spanQueue, spanEngine}, "the account"},
		{keyPool, []string{spanEntry, spanQueue, spanEngine}, "the pool of the model"},
		{keyColo, all, "the colo that serves the request, or that a hop leads to"},
		{keyServer, []string{spanHop}, "the colo server, as `COLO/NODE`"},
		{keyEndpoint, []string{spanEngine}, "the endpoint, as its document is called"},
		{keyPriority, []string{spanQueue}, "`interactive`, `standard` or `batch`"},
		{keyQueueLength, []string{spanQueue}, "requests that were waiting in the pool when this one arrived; absent if it got no permit"},
		{keyQueued, []string{spanEntry}, "milliseconds in queues of all colos"},
		{keyAttempt, []string{spanEngine}, "number of the attempt, from 1"},
		{keyAttempts, []string{spanEntry}, "attempts at engines, in all colos"},
		{keyVerdict, []string{spanHop}, "of a server that has not served the request: `ooc` (out of capacity), `moved` or `error`"},
		{keyOutcome, ends, "the outcome, as in the event"},
		{keyReason, all, "the reason of a refusal or a failure, as in the event; of a queue, why no permit was granted"},
		{keyMethod, []string{spanEntry}, "method of HTTP"},
		{keyRoute, []string{spanEntry}, "the route, such as `/v1/chat/completions`; absent if the path is unknown"},
		{keyPath, []string{spanEntry}, "the same; what a client has written into a path is not exported"},
		{keyScheme, []string{spanEntry}, "`http` or `https`"},
		{keyStatus, ends, "status of HTTP; absent if the client left before there was one"},
		{keyAddress, []string{spanHop, spanEngine}, "host of the colo server or the engine; absent for a colo in the same process"},
		{keyPort, []string{spanHop, spanEngine}, "its port"},
		{keyErrorType, []string{spanEntry, spanHop, spanEngine},
			"of a span that has failed: its reason, else the error's code, the outcome, or the engine's status. A bad request of a client is an error of the engine span only"},
		{keyOperation, ends, "`chat` (also for the Responses API), `text_completion`, `embeddings`, `generate_content` (images and audio); our own: `rerank`, `realtime`"},
		{keyProvider, []string{spanEngine}, "the kind of the engine, as in the endpoint's document: `vllm`, `sglang`, `openai` and so on"},
		{keyModel, ends, "the model's own name. Of an unknown model the name in the request, unless that may be a key"},
		{keyStream, ends, "true for a stream; absent otherwise"},
		{keyMaxTokens, []string{spanEngine}, "what the client has asked for"},
		{keyFirstChunk, []string{spanEngine}, "of a stream: seconds from the dispatch to the first byte"},
		{keyInputTokens, []string{spanEngine}, "as the engine reports them, with cached tokens"},
		{keyOutputTokens, []string{spanEngine}, "as the engine reports them"},
		{keyCachedTokens, []string{spanEngine}, "as the engine reports them"},
	}
}

// attributes are those of a span that is being made. Its methods leave empty values out.
type attributes struct{ all []attribute.KeyValue }

// mostAttributes is how many attributes a span has at most.
const mostAttributes = 24

func newAttributes(span string) *attributes {
	a := &attributes{all: make([]attribute.KeyValue, 0, mostAttributes)}
	a.text(keySpan, span)
	return a
}

func (a *attributes) add(kv attribute.KeyValue) { a.all = append(a.all, kv) }

func (a *attributes) text(key, value string) {
	if value != "" {
		a.add(attribute.String(key, value))
	}
}

func (a *attributes) number(key string, value int) {
	if value != 0 {
		a.add(attribute.Int(key, value))
	}
}

func (a *attributes) flag(key string, value bool) {
	if value {
		a.add(attribute.Bool(key, true))
	}
}

func (a *attributes) milliseconds(key string, d time.Duration) {
	if d != 0 {
		a.add(attribute.Float64(key, float64(d.Round(time.Microsecond))/float64(time.Millisecond)))
	}
}

// address adds the host and the port of host:port.
func (a *attributes) address(address string) {
	host, port := addressOf(address)
	a.text(keyAddress, host)
	a.number(keyPort, port)
}

// request adds what names the request in an event.
func (a *attributes) request(e *analytics.Event) {
	a.text(keyRequestID, e.RequestID)
	a.text(keyAccount, e.Account)
	a.text(keyPool, e.Pool)
	a.text(keyColo, e.ColoID)
}

// IsAttribute reports whether spans of a kind may have an attribute, by the documentation.
func IsAttribute(span, name string) bool {
	return slices.ContainsFunc(Attributes(), func(a Attribute) bool { return a.Name == name && slices.Contains(a.Spans, span) })
}
