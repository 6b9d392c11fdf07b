package tracing

import (
	"context"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sampler decides which requests are recorded.
type sampler struct {
	ofParent bool // a request with a traceparent is recorded if that says so
	root     sdktrace.Sampler
	name     string
}

const defaultSampler = "parentbased_always_on"

// readSampler reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.
func (s *settings) readSampler(env environment) error {
	name := strings.ToLower(strings.TrimSpace(env("OTEL_TRACES_SAMPLER")))
	if name == "" {
		name = defaultSampler
	}
	root, ofParent := strings.CutPrefix(name, "parentbased_")
	s.sampler = sampler{ofParent: ofParent, name: name}
	switch root {
	case "always_on":
		s.sampler.root = sdktrace.AlwaysSample()
	case "always_off":
		s.sampler.root = sdktrace.NeverSample()
	case "traceidratio":
		ratio := 1.0
		if value := strings.TrimSpace(env("OTEL_TRACES_SAMPLER_ARG")); value != "" {
			var err error
			if ratio, err = strconv.ParseFloat(value, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				return invalid("OTEL_TRACES_SAMPLER_ARG", value, "must be a number from 0 to 1: the share of requests that are recorded, such as 0.01")
			}
		}
		s.sampler.root = sdktrace.TraceIDRatioBased(ratio)
		s.sampler.name += " " + strconv.FormatFloat(ratio, 'g', -1, 64)
	default:
		return invalid("OTEL_TRACES_SAMPLER", name, "must be always_on, always_off or traceidratio, or one of these after parentbased_")
	}
	return nil
}

// records reports whether a request is recorded whose client has sent a position, or one that begins its trace.
func (s *sampler) records(p position, sent bool) bool {
	if sent && s.ofParent {
		return p.flags.IsSampled()
	}
	return s.rolls(p.trace)
}

func (s *sampler) rolls(id trace.TraceID) bool {
	return s.root.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: id}).Decision == sdktrace.RecordAndSample
}
