package tracing

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// chosen has the ids of a span that is made when it has ended.
type chosen struct {
	trace trace.TraceID
	span  SpanID
}

type chosenKey struct{}

// with returns a context in which a span gets these ids.
func (c *chosen) with(ctx context.Context) context.Context {
	return context.WithValue(ctx, chosenKey{}, c)
}

// chosenIDs gives spans the ids that were chosen for them.
type chosenIDs struct{}

// NewIDs returns the ids of a span without a parent.
func (chosenIDs) NewIDs(ctx context.Context) (trace.TraceID, SpanID) {
	c := ctx.Value(chosenKey{}).(*chosen)
	return c.trace, c.span
}

// NewSpanID returns the id of a span in the trace of its parent.
func (chosenIDs) NewSpanID(ctx context.Context, _ trace.TraceID) SpanID {
	return ctx.Value(chosenKey{}).(*chosen).span
}
