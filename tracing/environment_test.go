package tracing

import (
	"strings"
	"testing"
)

// Variables that cannot be obeyed are errors that name the variable and say what it must be, without a secret; without an endpoint, no variable
// matters.
func TestSettings(t *testing.T) {
	with := func(pairs ...string) environment {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	const endpoint, url = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"
	for _, env := range []environment{
		with(), with("OTEL_TRACES_SAMPLER", "nonsense"), with(endpoint, url, "OTEL_SDK_DISABLED", "true"), with(endpoint, url, "OTEL_TRACES_EXPORTER", "none"),
	} {
		if s, err := readSettings(env); s != nil || err != nil {
			t.Errorf("%+v, %v; want no traces", s, err)
		}
	}
	for _, c := range [][]string{
		{endpoint, url}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/traces", endpoint, "nonsense"}, {endpoint, url, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
		{endpoint, url, "OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.01"}, {endpoint, url, "OTEL_PROPAGATORS", "baggage,tracecontext"},
		{endpoint, url, "OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20a,b=c"},
	} {
		if s, err := readSettings(with(c...)); s == nil || err != nil {
			t.Errorf("%q: %v", c, err)
		}
	}
	for _, c := range [][2]string{
		{endpoint, "collector:4318"}, {endpoint, "http://me:secret@collector:4318"}, {endpoint, "http://me:secret@[bad"}, {endpoint, "unix:///run/x"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/xml"}, {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "udp"}, {"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"}, {"OTEL_EXPORTER_OTLP_HEADERS", "secret"}, {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/does/not/exist"},
		{"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/does/not/exist"}, {"OTEL_TRACES_SAMPLER", "jaeger_remote"}, {"OTEL_PROPAGATORS", "b3"},
		{"OTEL_PROPAGATORS", "baggage"}, {"OTEL_BSP_MAX_QUEUE_SIZE", "0"}, {"OTEL_BSP_SCHEDULE_DELAY", "soon"}, {"OTEL_TRACES_EXPORTER", "zipkin"},
	} {
		_, err := readSettings(with(c[0], c[1], endpoint, url))
		if err == nil || !strings.Contains(err.Error(), c[0]) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s=%s: %v", c[0], c[1], err)
		}
	}
	for _, ratio := range []string{"2", "-1", "NaN", "one"} {
		_, err := readSettings(with(endpoint, url, "OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", ratio))
		if err == nil || !strings.Contains(err.Error(), "OTEL_TRACES_SAMPLER_ARG") {
			t.Errorf("ratio %s: %v", ratio, err)
		}
	}
}
