package tracing

import (
	"context"
	"encoding/hex"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Trace is where one request stands in a trace at one node. A nil Trace records nothing, and passes on what the sender of the request has
// sent. One goroutine at a time uses it.
type Trace struct {
	tracer   *Tracer
	at       position // the span of the sender of the request; without a span, the trace begins here
	recorded bool
	own      SpanID // that is the parent of the others of this node; zero = they have the sender's

	// Of the spans under way.
	entry *EntrySpan
	hop   *HopSpan
	next  SpanID // of the request to the next server, or to an engine
}

// Begin returns the trace of a request at an entry, which the client's header traceparent continues, if it is valid. A trace that begins here
// has the request id, which is 128 random bits in hexadecimal. It is nil if nothing is recorded and the client's header can be passed on as it
// came; without one, the colo server tells the engine: see [Unrecorded]. A nil Tracer returns a nil Trace.
func (t *Tracer) Begin(traceparent, requestID string) *Trace {
	if t == nil {
		return nil
	}
	p, sent := parsePosition(traceparent)
	if !sent {
		p = position{}
		if _, err := hex.Decode(p.trace[:], []byte(requestID)); err != nil {
			return nil
		}
	}
	switch {
	case t.sampler.records(p, sent):
		return &Trace{tracer: t, at: p, recorded: true, own: newSpanID()}
	case traceparent == "", sent && !p.flags.IsSampled():
		return nil
	}
	return &Trace{tracer: t, at: p}
}

// Unrecorded returns the header traceparent for an engine that gets a request of which nothing is recorded, and whose entry has passed on no
// header: it keeps the engine from deciding for itself.
func Unrecorded(requestID string) string {
	p := position{span: newSpanID()}
	if len(requestID) != 2*len(p.trace) || !decodeHex(p.trace[:], requestID) {
		return ""
	}
	return p.String()
}

// Continue returns the trace of a request at a colo server, where none begins. It is nil if nothing of it is recorded. A nil Tracer returns a
// nil Trace.
func (t *Tracer) Continue(traceparent string) *Trace {
	if t == nil || traceparent == "" || t.sampler.ofParent && isUnsampled(traceparent) {
		return nil
	}
	p, ok := parsePosition(traceparent)
	if !ok || !t.sampler.records(p, true) {
		return nil
	}
	return &Trace{tracer: t, at: p, recorded: true}
}

// Recorded reports whether spans of the request are made.
func (t *Trace) Recorded() bool { return t != nil && t.recorded }

// ID returns the id of the trace in hexadecimal, or nothing if the request is not recorded.
func (t *Trace) ID() string {
	if !t.Recorded() {
		return ""
	}
	return t.at.trace.String()
}

// Header returns the value with which a header line of the request is passed on to the next server or to an engine: that of traceparent names
// the span that has begun last. A line of another name is passed on as it is.
func (t *Trace) Header(name, value string) string {
	switch {
	case t == nil || name != "traceparent" && name != "tracestate":
		return value
	case name == "traceparent":
		return t.parent()
	case !t.at.span.IsValid():
		return "" // it belongs to a header traceparent that is not valid
	}
	return value
}

// parent returns the header traceparent for the next server.
func (t *Trace) parent() string {
	next := position{trace: t.at.trace, span: t.next, flags: t.at.flags &^ trace.FlagsSampled}
	if t.recorded {
		next.flags |= trace.FlagsSampled
	} else {
		next.span = newSpanID() // the standard wants another one with another flag
	}
	return next.String()
}

// span is one span as it is recorded.
type span struct {
	id         SpanID
	parent     SpanID // of this node; zero = the sender's
	name       string
	kind       trace.SpanKind
	start, end time.Time
	err        string // error.type; empty = it has not failed
	attributes []attribute.KeyValue
}

// record hands a span to the exporter, unless there is no room for it.
func (t *Trace) record(s *span) {
	if !t.tracer.queue.enter() {
		return
	}
	if s.err != "" {
		s.attributes = append(s.attributes, attribute.String(keyErrorType, s.err))
	}
	ids := &chosen{trace: t.at.trace, span: s.id}
	ctx := trace.ContextWithSpanContext(ids.with(context.Background()), t.parentOf(s))
	_, made := t.tracer.tracer.Start(ctx, s.name, trace.WithTimestamp(s.start), trace.WithSpanKind(s.kind), trace.WithAttributes(s.attributes...))
	if s.err != "" {
		made.SetStatus(codes.Error, "")
	}
	made.End(trace.WithTimestamp(s.end))
}

// parentOf returns the parent of a span, which is not valid for the first span of a trace.
func (t *Trace) parentOf(s *span) trace.SpanContext {
	c := trace.SpanContextConfig{TraceID: t.at.trace, SpanID: s.parent, TraceFlags: t.at.flags | trace.FlagsSampled}
	if !c.SpanID.IsValid() {
		c.SpanID, c.Remote = t.at.span, true
	}
	if !c.SpanID.IsValid() {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(c)
}
