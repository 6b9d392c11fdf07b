package tracing

import (
	"context"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

type noExporter struct{}

func (noExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (noExporter) Shutdown(context.Context) error                             { return nil }

// BenchmarkUnsampled is all that tracing does for a request that is not sampled, at the entry and at a colo.
func BenchmarkUnsampled(b *testing.B) {
	s, err := readSettings(func(name string) string {
		return map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0",
		}[name]
	})
	if err != nil {
		b.Fatal(err)
	}
	t := newTracer(s, noExporter{}, resource.Empty(), slog.New(slog.DiscardHandler))
	defer t.Close()
	b.ReportAllocs()
	for b.Loop() {
		entry := t.Begin("", "4bf92f3577b34da6a3ce929d0e0e4736")
		colo := t.Continue(entry.Header("traceparent", ""))
		if colo.Recorded() || Unrecorded("4bf92f3577b34da6a3ce929d0e0e4736") == "" {
			b.Fatal("recorded")
		}
	}
}
