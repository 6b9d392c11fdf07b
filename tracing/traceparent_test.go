package tracing

import (
	"context"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

const example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestParsePosition(t *testing.T) {
	for s, want := range map[string]string{
		example: example,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03":      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-09-more": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-04":      "",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more": "",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":      "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":      "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":      "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0":       "",
		"00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01":      "",
		"00-" + strings.Repeat("g", 32) + "-00f067aa0ba902b7-01":       "",
		"": "", "00": "", "canary": "", strings.Repeat("-", positionSize): "",
	} {
		p, ok := parsePosition(s)
		if ok != (want != "") || ok && p.String() != want {
			t.Errorf("%q: %v, %v", s, p, ok)
		}
	}
}

// The parser of OpenTelemetry agrees on every header, but for a dash after one of version 0, which the standard does not allow.
func FuzzParsePosition(f *testing.F) {
	for _, s := range []string{example, "cc" + example[2:] + "-more", "ff" + example[2:], strings.ToUpper(example), example + "-", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) == positionSize+1 && strings.HasPrefix(s, "00") && strings.HasSuffix(s, "-") {
			if p, ok := parsePosition(s); ok {
				t.Fatalf("%q: %v, want none", s, p)
			}
			return
		}
		ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": s})
		theirs := trace.SpanContextFromContext(ctx)
		p, ok := parsePosition(s)
		if ok != theirs.IsValid() {
			t.Fatalf("%q: %v, want %v", s, ok, theirs.IsValid())
		}
		if !ok {
			return
		}
		if p.trace != theirs.TraceID() || p.span != theirs.SpanID() || p.flags != theirs.TraceFlags() {
			t.Fatalf("%q: %v, want %v", s, p, theirs)
		}
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		if p.String() != carrier["traceparent"] {
			t.Fatalf("%q: %s, want %s", s, p, carrier["traceparent"])
		}
	})
}
