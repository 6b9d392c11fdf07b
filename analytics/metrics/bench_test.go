package metrics_test

import (
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/metrics"
	"colonnade/permits"
)

func BenchmarkFinished(b *testing.B) {
	m := metrics.NewColo(metrics.NewRegistry(), emptyTable, func() []permits.Stats { return nil }, 10)
	e := &analytics.Event{
		Account: "acme", Model: "llama-3.1-8b-instruct", Endpoint: "gpu-1", Pool: "llama-3.1-8b", Outcome: analytics.OutcomeCompleted,
		RequestTime: analytics.Milliseconds(812 * time.Millisecond), TimeToFirstToken: analytics.Milliseconds(50 * time.Millisecond),
		PromptTokens: 812, CompletionTokens: 64,
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Finished(e)
	}
}
