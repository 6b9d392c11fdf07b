package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushWithin is how long the end of a node waits at most for spans that are not exported yet.
const flushWithin = 2 * time.Second

// Node is what spans say about the process that makes them, unless the environment says otherwise.
type Node struct {
	Service string // service.name
	Name    string // service.instance.id
	Version string // service.version
	Logger  *slog.Logger
}

// Tracer exports the spans of one node. It is for concurrent use.
type Tracer struct {
	sampler  sampler
	queue    *queue
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	logger   *slog.Logger
}

// Open returns what the environment asks for, or nil if it asks for no traces. The collector need not be there.
func Open(n Node) (*Tracer, error) {
	s, err := readSettings(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("cannot trace requests: %w", err)
	}
	if s == nil {
		return nil, nil //nolint:nilnil // the usual case
	}
	own := resource.NewSchemaless(attribute.String("service.name", n.Service), attribute.String("service.instance.id", n.Name),
		attribute.String("service.version", n.Version))
	described, err := resource.Merge(own, s.resource)
	if err != nil {
		return nil, fmt.Errorf("cannot trace requests: %w", err)
	}
	exporter, err := s.newExporter()
	if err != nil {
		return nil, fmt.Errorf("cannot trace requests: %w", err)
	}
	t := newTracer(s, exporter, described, n.Logger)
	n.Logger.Info("spans of requests are exported", "endpoint", s.endpoint, "protocol", s.protocol, "sampler", s.sampler.name)
	return t, nil
}

// newExporter returns the exporter of OpenTelemetry, which reads the rest of its settings from the environment, too.
func (s *settings) newExporter() (sdktrace.SpanExporter, error) {
	if s.protocol == protocolGRPC {
		return otlptracegrpc.New(context.Background())
	}
	return otlptracehttp.New(context.Background())
}

func newTracer(s *settings, exporter sdktrace.SpanExporter, described *resource.Resource, logger *slog.Logger) *Tracer {
	t := &Tracer{sampler: s.sampler, queue: &queue{exporter: exporter, room: int64(s.queueSize), logger: logger}, logger: logger}
	t.provider = sdktrace.NewTracerProvider(
		sdktrace.WithResource(described), sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(chosenIDs{}),
		sdktrace.WithBatcher(t.queue, sdktrace.WithMaxQueueSize(s.queueSize)),
	)
	t.tracer = t.provider.Tracer("colonnade")
	return t
}

// Close exports the spans that are left, for two seconds at most. A nil Tracer has none.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushWithin)
	defer cancel()
	err := t.provider.Shutdown(ctx)
	if err != nil { // else the exporter has ended
		err = errors.Join(err, t.queue.exporter.Shutdown(context.Background()))
	}
	if left := t.queue.kept.Load(); left > 0 {
		t.logger.Warn("spans are lost, since the collector does not take them", "spans", left, "error", err)
	}
}

// Stats are counts of spans.
type Stats struct {
	Exported uint64 // the collector has taken them
	Dropped  uint64 // since there was no room for them
	Failed   uint64 // the collector has not taken them, or its answer did not come
}

// Stats returns the counts so far.
func (t *Tracer) Stats() Stats {
	return Stats{Exported: t.queue.exported.Load(), Dropped: t.queue.dropped.Load(), Failed: t.queue.failed.Load()}
}

// queue counts spans on their way to the exporter, and is the exporter of the batches in between. The processor of OpenTelemetry drops spans
// too, but does not say how many. It has room for all spans that enter passes, so that it drops none.
type queue struct {
	exporter sdktrace.SpanExporter
	room     int64
	logger   *slog.Logger

	kept                      atomic.Int64
	exported, dropped, failed atomic.Uint64
	away                      bool // of the goroutine that exports
}

// enter reports whether there is room for another span.
func (q *queue) enter() bool {
	if q.kept.Add(1) <= q.room {
		return true
	}
	q.kept.Add(-1)
	q.dropped.Add(1)
	return false
}

// maxErrorText is how much of a collector's words is logged.
const maxErrorText = 300

// ExportSpans exports a batch. One goroutine at a time calls it. Its result is nil: the processor would write an error to the standard error.
func (q *queue) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.exporter.ExportSpans(ctx, spans)
	q.kept.Add(-int64(len(spans)))
	if err == nil {
		q.exported.Add(uint64(len(spans)))
	} else {
		q.failed.Add(uint64(len(spans)))
	}
	switch {
	case err != nil && !q.away:
		q.logger.Warn("the collector does not take spans; requests are served as before", "error", fmt.Sprintf("%.*s", maxErrorText, err.Error()))
	case err == nil && q.away:
		q.logger.Info("the collector takes spans again")
	}
	q.away = err != nil
	return nil
}

// Shutdown ends the exporter.
func (q *queue) Shutdown(ctx context.Context) error { return q.exporter.Shutdown(ctx) }
