package light_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/light"
)

// Events from the journal to a sink, in batches of the default size: the time of an event, and the processor time of the process, which has the
// receiver of HTTP as well.
func BenchmarkShip(b *testing.B) {
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer receiver.Close()
	for name, url := range map[string]string{
		"file":           "file:" + filepath.Join(b.TempDir(), "e.jsonl"),
		"file, filtered": "file:" + filepath.Join(b.TempDir(), "e.jsonl") + "?kinds=inference&accounts=acme",
		"http, none":     receiver.URL + "?compression=none",
		"http, gzip":     receiver.URL,
		"http, zstd":     receiver.URL + "?compression=zstd",
	} {
		b.Run(name, func(b *testing.B) { benchmarkShip(b, url) })
	}
}

func benchmarkShip(b *testing.B, url string) {
	const events = 50_000
	dir := b.TempDir()
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for i := range events {
		l.Append(&analytics.Event{
			EventID: analytics.EventID(fmt.Sprint(i), "ams-1", 1, analytics.KindInference), RequestID: fmt.Sprintf("%032d", i), Kind: analytics.KindInference,
			Phase: analytics.PhaseEnd, ColoID: "ams", SourceColoID: "weur-1", ColoPath: []string{"ams"}, Account: "acme", Model: "llama-3.1-8b-instruct",
			Pool: "llama-3.1-8b", Endpoint: "gpu-7", Engine: "vllm", Status: 200, Outcome: analytics.OutcomeCompleted, Attempts: 1,
			RequestTime: analytics.Milliseconds(812*time.Millisecond + time.Duration(i)), PromptTokens: 812, CompletionTokens: 64, BytesIn: 4096, BytesOut: 16384, Streamed: true,
		})
	}
	spec, err := sinks.Parse(url)
	if err != nil {
		b.Fatal(err)
	}
	e := sinks.Environment{Node: "ams-1", DataDir: dir}
	b.ReportAllocs()
	before := cpuTime(b)
	shipped := 0
	for b.Loop() {
		e.DataDir = dir
		sink, err := light.Open(spec, e)
		if err != nil {
			b.Fatal(err)
		}
		c := light.Config(spec, e, 0)
		c.Once, c.Name = true, fmt.Sprint("sink-", shipped) // a new one, which begins with the oldest event
		s, err := ship.Open(c, sink)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Run(b.Context()); err != nil {
			b.Fatal(err)
		}
		if stats := s.Stats(); stats.Shipped != events {
			b.Fatalf("%+v", stats)
		}
		shipped += events
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(shipped), "ns/event")
	b.ReportMetric(float64(cpuTime(b)-before)/float64(shipped), "cpu-ns/event")
}

func cpuTime(b *testing.B) int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
