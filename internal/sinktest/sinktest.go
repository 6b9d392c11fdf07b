// Package sinktest has what the tests of sinks have in common: batches of events, and a shipper that keeps trying.
package sinktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/internal/testkit"
)

// Began is the time of the event 0. One event follows each second.
var Began = time.Date(2026, 11, 23, 9, 59, 30, 123456000, time.UTC)

// Event returns an event that has every kind of field. Those of different numbers differ.
func Event(n int) analytics.Event {
	e := analytics.Event{
		EventID: analytics.EventID(fmt.Sprint(n), "test", 1, analytics.KindInference), RequestID: fmt.Sprintf("request-%d", n),
		Kind: analytics.KindInference, Phase: analytics.PhaseEnd, Time: Began.Add(time.Duration(n) * time.Second), Node: "ams-1", ColoID: "ams",
		ColoPath: []string{"ams/ams-1", "fra/fra-1"}, Account: "acme", Model: "llama", Status: 200, Outcome: analytics.OutcomeCompleted,
		RequestTime: analytics.Milliseconds(1500 * time.Microsecond), PromptTokens: n + 1, Cost: 0.25, CostUnit: "neurons", Streamed: true,
	}
	if n%2 == 1 { // a refusal, which has few fields
		e.Kind, e.Outcome, e.Status, e.Reason = analytics.KindRequest, analytics.OutcomeRefused, 429, "queue_full"
		e.ColoPath, e.Cost, e.CostUnit, e.PromptTokens, e.Streamed = nil, 0, "", 0, false
	}
	return e
}

// Incident returns an event about an engine, whose fields came with version 3 of the schema.
func Incident() analytics.Event {
	return analytics.Event{
		EventID: analytics.IncidentID("gpu-7-8000", "boot", 1), Kind: analytics.KindEngine, Phase: analytics.PhaseEnd, Time: Began, Node: "ams-1", ColoID: "ams",
		Worker: "gpu-7-8000", Machine: "gpu-7", GPU: "GPU-1", Reason: "gpu_xid", Detail: "Xid 79",
	}
}

// Batch returns the events from one number up to another.
func Batch(t testing.TB, from, to int) *ship.Batch {
	t.Helper()
	events := make([]analytics.Event, 0, to-from)
	for n := from; n < to; n++ {
		events = append(events, Event(n))
	}
	return BatchOf(t, fmt.Sprintf("billing-1-%d", from), events...)
}

// BatchOf returns a batch of events. first is the position of the first one.
func BatchOf(t testing.TB, first string, events ...analytics.Event) *ship.Batch {
	t.Helper()
	var lines [][]byte
	for i := range events {
		line, err := json.Marshal(&events[i])
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return ship.NewBatch("ams-1", first, lines...)
}

// IDs returns the ids of the events from one number up to another, in order.
func IDs(from, to int) []string {
	var ids []string
	for n := from; n < to; n++ {
		ids = append(ids, Event(n).EventID)
	}
	slices.Sort(ids)
	return ids
}

// Spec returns the description of a sink as Parse would: settings is the query of the URL, with settings of the scheme alone.
func Spec(t testing.TB, rawURL, settings string) *sinks.Spec {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	all := sinks.Schemes()
	i := slices.IndexFunc(all, func(s sinks.Scheme) bool { return s.Name == u.Scheme })
	if i < 0 {
		t.Fatalf("%s: there is no such scheme", rawURL)
	}
	values, err := url.ParseQuery(settings)
	if err != nil {
		t.Fatal(err)
	}
	spec := &sinks.Spec{Name: "test", Scheme: &all[i], URL: u, Compression: all[i].Compression, Params: map[string]string{}}
	for name := range maps.Keys(values) {
		if !slices.Contains(all[i].Params, name) {
			t.Fatalf("%s: the scheme has no setting %s", rawURL, name)
		}
		spec.Params[name] = values.Get(name)
	}
	return spec
}

// Secret returns the environment of a sink whose credential is a text.
func Secret(secret string) sinks.Environment {
	return sinks.Environment{Credential: func() (string, error) { return secret, nil }}
}

// Send sends a batch again until the sink has taken it.
func Send(t testing.TB, sink ship.Sink, b *ship.Batch) {
	t.Helper()
	var last error
	testkit.WaitFor(t, "a sink to take a batch", func() bool {
		last = sink.Send(t.Context(), b)
		if last != nil {
			t.Logf("not taken: %v", last)
		}
		return last == nil
	})
}

// Fails sends a batch for a while, and checks that it is not taken, with an error that has all of want. Rejected says whether the sink
// will never take it.
func Fails(t testing.TB, sink ship.Sink, b *ship.Batch, rejected bool, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
	defer cancel()
	err := sink.Send(ctx, b)
	if err == nil {
		t.Fatalf("taken; want an error with %q", want)
	}
	wantError(t, err, rejected, want...)
}

// FailsCheck checks that a sink reports what is wrong without an event, too.
func FailsCheck(t testing.TB, sink ship.Sink, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
	defer cancel()
	err := sink.Check(ctx)
	if err == nil {
		t.Fatalf("the check finds nothing; want an error with %q", want)
	}
	wantError(t, err, false, want...)
}

func wantError(t testing.TB, err error, rejected bool, want ...string) {
	t.Helper()
	var never *ship.RejectedError
	if errors.As(err, &never) != rejected {
		t.Errorf("rejected for good: %v, want %v: %v", !rejected, rejected, err)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error lacks %q: %v", text, err)
		}
	}
}
