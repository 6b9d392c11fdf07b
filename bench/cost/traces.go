package cost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// TracedName is the contestant that records the spans of some requests.
const TracedName = FleetName + ", traced"

// TracedShare is the share of requests that it records.
const TracedShare = "0.01"

// runTraces measures plain requests to two fleets that differ in one thing: one records traces.
func (m *measurement) runTraces(ctx context.Context) (err error) {
	if !m.wants(TracesScenario) {
		return nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	collector := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.Copy(io.Discard, r.Body) // an empty answer is a message without a partial success
	})}
	go func() { _ = collector.Serve(listener) }() // ends by Close
	defer func() { err = errors.Join(err, collector.Close()) }()
	traced := fleetContestant()
	traced.Name, traced.start = TracedName, elsewhere(traced.start, func(p *place) {
		p.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
			"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=" + TracedShare}
	})
	all, stop, err := m.launchAll(ctx, []contestant{fleetContestant(), traced})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	m.result.Traces, err = m.rounds(ctx, TracesScenario, m.size.TraceRounds, all, func(ctx context.Context, r *running) (int, Round) {
		return m.saturateFor(ctx, r, m.size.TraceTime)
	})
	return err
}
