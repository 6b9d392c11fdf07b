package journal_test

import (
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

func finalEvent() *analytics.Event {
	return &analytics.Event{
		EventID: analytics.EventID("0123456789abcdef0123456789abcdef", "ams-1", 1, analytics.KindInference), RequestID: "0123456789abcdef0123456789abcdef",
		Kind: analytics.KindInference, Phase: analytics.PhaseEnd, ColoID: "ams", SourceColoID: "weur-1", ColoPath: []string{"ams"},
		Account: "acme", Model: "llama-3.1-8b-instruct", Pool: "llama-3.1-8b", Endpoint: "gpu-7", Engine: "vllm",
		Status: 200, Outcome: analytics.OutcomeCompleted, Attempts: 1,
		RequestTime: analytics.Milliseconds(812 * time.Millisecond), QueuingTime: analytics.Milliseconds(1500 * time.Microsecond),
		InferenceTime: analytics.Milliseconds(800 * time.Millisecond), TimeToFirstToken: analytics.Milliseconds(50 * time.Millisecond),
		PromptTokens: 812, CompletionTokens: 64, BytesIn: 4096, BytesOut: 16384, Streamed: true,
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, dir := range map[string]string{"disk": b.TempDir(), "nothing": ""} {
		b.Run(name, func(b *testing.B) {
			l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1", MaxBytes: 128 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportAllocs()
			b.ResetTimer() // Open read what the round before left
			b.RunParallel(func(p *testing.PB) {
				e := finalEvent()
				for p.Next() {
					l.Append(e)
				}
			})
		})
	}
}
