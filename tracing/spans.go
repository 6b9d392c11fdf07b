package tracing

import (
	"cmp"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/openai"
)

// EntrySpan is a request at an entry, from its head to the last byte of the answer.
type EntrySpan struct {
	Method string // of HTTP
	API    openai.API
	Route  string // of the path, one of a fixed set; empty = not known
	TLS    bool
	Start  time.Time
	End    time.Time
	Event  *analytics.Event // the final one
}

// BeginEntry begins the span of the request at the entry that has begun the Trace. It does nothing unless the request is recorded.
func (t *Trace) BeginEntry(start time.Time, method string) {
	if !t.Recorded() {
		return
	}
	switch method {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS":
	default:
		method = "_OTHER" // by the standard; a client may send any word
	}
	t.entry = &EntrySpan{Method: method, Start: start}
}

// Entry returns the span of the request at the entry, or nil if it is not recorded. The caller completes it.
func (t *Trace) Entry() *EntrySpan {
	if t == nil {
		return nil
	}
	return t.entry
}

// EndEntry records the span of the request at the entry.
func (t *Trace) EndEntry() {
	s := t.entry
	e := s.Event
	t.entry = nil
	r := span{id: t.own, name: s.Method, kind: trace.SpanKindServer, start: s.Start, end: s.End, err: ServerError(e)}
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	a := newAttributes(spanEntry)
	a.text(keyMethod, s.Method)
	a.text(keyScheme, scheme)
	if s.Route != "" {
		r.name += " " + s.Route
		a.text(keyRoute, s.Route)
		a.text(keyPath, s.Route)
	}
	a.number(keyStatus, e.Status)
	a.text(keyOperation, Operation(s.API))
	a.text(keyModel, e.Model)
	a.flag(keyStream, e.Streamed)
	a.request(e)
	a.text(keyClientRequestID, e.ClientRequestID)
	a.number(keyAttempts, e.Attempts)
	a.text(keyOutcome, string(e.Outcome))
	a.text(keyReason, e.Reason)
	a.milliseconds(keyQueued, e.QueuingTime.Std())
	r.attributes = a.all
	t.record(&r)
}

// ServerError returns the error.type of the request of an event, or nothing: as HTTP has it for servers, a bad request is no error.
func ServerError(e *analytics.Event) string {
	switch e.Outcome {
	case analytics.OutcomeCompleted, analytics.OutcomeClientGone, analytics.OutcomeMoved:
		return ""
	case analytics.OutcomeRefused:
		if e.Status < http.StatusInternalServerError {
			return ""
		}
	}
	return errorType(e)
}

// errorType returns the error.type of an event: its reason, or else the next best.
func errorType(e *analytics.Event) string {
	switch {
	case e.Reason != "":
		return e.Reason
	case e.Code != "":
		return e.Code
	}
	return string(e.Outcome)
}

// HopSpan is a request on its way to a colo server, from its dispatch to the end of the answer.
type HopSpan struct {
	id      SpanID
	Server  string // COLO/NODE
	Colo    string
	Address string // host:port; empty = in this process
	Start   time.Time
	Verdict string // of a request that the server has not served
	Reason  string
	Error   string // error.type; empty = it has not failed
}

// BeginHop begins a hop. It does nothing unless the request is recorded.
func (t *Trace) BeginHop(start time.Time) {
	if t.Recorded() {
		t.next = newSpanID()
		t.hop = &HopSpan{id: t.next, Start: start}
	}
}

// Hop returns the hop under way, or nil if there is none, or it is not recorded. The caller completes it.
func (t *Trace) Hop() *HopSpan {
	if t == nil {
		return nil
	}
	return t.hop
}

// EndHop records the hop under way.
func (t *Trace) EndHop(requestID string, end time.Time) {
	s := t.hop
	t.hop = nil
	a := newAttributes(spanHop)
	a.address(s.Address)
	a.text(keyRequestID, requestID)
	a.text(keyColo, s.Colo)
	a.text(keyServer, s.Server)
	a.text(keyVerdict, s.Verdict)
	a.text(keyReason, s.Reason)
	t.record(&span{id: s.id, parent: t.own, name: spanHop, kind: trace.SpanKindClient, start: s.Start, end: end, err: s.Error, attributes: a.all})
}

// SetVerdict notes the verdict of a server that has not served the request. Only a failure is an error.
func (s *HopSpan) SetVerdict(v hop.Verdict) {
	s.Verdict, s.Reason, s.Error = string(v.Kind), v.Reason, ""
	if v.Kind == hop.VerdictError {
		s.Error = cmp.Or(v.Reason, strconv.Itoa(v.Number))
	}
}

// QueueSpan is the time of a request in the queue of a pool.
type QueueSpan struct {
	RequestID, Account, Pool, Colo, Priority string

	Start, End time.Time
	Length     int    // requests that were waiting when it arrived; -1 = not known
	Reason     string // of a request that has got no permit
}

// RecordQueue records a span in a queue. It does nothing unless the request is recorded.
func (t *Trace) RecordQueue(s *QueueSpan) {
	if !t.Recorded() {
		return
	}
	a := newAttributes(spanQueue)
	a.text(keyRequestID, s.RequestID)
	a.text(keyAccount, s.Account)
	a.text(keyPool, s.Pool)
	a.text(keyColo, s.Colo)
	a.text(keyPriority, s.Priority)
	if s.Length >= 0 {
		a.add(attribute.Int(keyQueueLength, s.Length))
	}
	a.text(keyReason, s.Reason)
	t.record(&span{id: newSpanID(), parent: t.own, name: spanQueue, kind: trace.SpanKindInternal, start: s.Start, end: s.End, attributes: a.all})
}

// EngineSpan is one attempt at an engine.
type EngineSpan struct {
	API       openai.API
	Address   string // of the engine, host:port
	MaxTokens int    // that the client has asked for; 0 = not known
	Start     time.Time
	FirstByte time.Time // zero = none has come
	End       time.Time
	Event     *analytics.Event // the final one
}

// BeginAttempt begins an attempt at an engine. It does nothing unless the request is recorded.
func (t *Trace) BeginAttempt() {
	if t.Recorded() {
		t.next = newSpanID()
	}
}

// RecordEngine records the attempt that has begun last. It does nothing unless the request is recorded.
func (t *Trace) RecordEngine(s *EngineSpan) {
	if !t.Recorded() {
		return
	}
	e, operation := s.Event, Operation(s.API)
	a := newAttributes(spanEngine)
	a.text(keyOperation, operation)
	a.text(keyProvider, e.Engine)
	a.text(keyModel, e.Model)
	a.flag(keyStream, e.Streamed)
	a.number(keyMaxTokens, s.MaxTokens)
	a.number(keyInputTokens, e.PromptTokens)
	a.number(keyOutputTokens, e.CompletionTokens)
	a.number(keyCachedTokens, e.CachedTokens)
	if e.Streamed && e.TimeToFirstToken > 0 {
		a.add(attribute.Float64(keyFirstChunk, s.FirstByte.Sub(s.Start).Seconds()))
	}
	a.address(s.Address)
	a.number(keyStatus, e.Status)
	a.request(e)
	a.text(keyEndpoint, e.Endpoint)
	a.number(keyAttempt, e.Attempts)
	a.text(keyOutcome, string(e.Outcome))
	a.text(keyReason, e.Reason)
	t.record(&span{
		id: t.next, parent: t.own, name: operation + " " + e.Model, kind: trace.SpanKindClient, start: s.Start, end: s.End, err: engineError(e), attributes: a.all,
	})
}

// engineError returns the error of an attempt: as HTTP has it for clients, every status from 400 is one.
func engineError(e *analytics.Event) string {
	switch e.Outcome {
	case analytics.OutcomeClientGone, analytics.OutcomeMoved:
		return ""
	case analytics.OutcomeCompleted:
		if e.Status < http.StatusBadRequest {
			return ""
		}
		return strconv.Itoa(e.Status)
	}
	return errorType(e)
}

// Operation returns the gen_ai.operation.name of an API: one of the names that OpenTelemetry has, or else our own.
func Operation(api openai.API) string {
	switch api {
	case openai.Chat, openai.Responses, openai.Messages, openai.OllamaChat:
		return "chat"
	case openai.Completions, openai.Infill, openai.LlamaCompletions, openai.OllamaGenerate, openai.Generate:
		return "text_completion"
	case openai.Embeddings, openai.OllamaEmbed:
		return "embeddings"
	case openai.Images, openai.Speech, openai.Transcriptions:
		return "generate_content"
	case openai.Rerank, openai.Realtime, openai.CountTokens, openai.Tokenize, openai.Score, openai.Classify, openai.Pooling:
		return api.String()
	}
	return ""
}

// addressOf splits host:port.
func addressOf(address string) (host string, port int) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(service)
	return host, port
}
