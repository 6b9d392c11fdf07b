package journal_test

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
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

// A final event: on disk, counted only, and its line written by a system call, as a node did it before segments were mapped.
func BenchmarkAppend(b *testing.B) {
	for name, dir := range map[string]string{"disk": b.TempDir(), "nothing": ""} {
		b.Run(name, func(b *testing.B) { benchmarkAppend(b, dir) })
	}
	b.Run("plain write of the line", func(b *testing.B) {
		line := []byte(lineOf(b, finalEvent()))
		file, err := os.OpenFile(filepath.Join(b.TempDir(), "1.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
		if err != nil {
			b.Fatal(err)
		}
		defer file.Close()
		var mu sync.Mutex
		b.ReportAllocs()
		defer reportCPU(b)()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				mu.Lock()
				_, err := file.Write(line)
				mu.Unlock()
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}

func benchmarkAppend(b *testing.B, dir string) {
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1", MaxBytes: 128 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.ReportAllocs()
	b.ResetTimer() // Open read what the round before left
	defer reportCPU(b)()
	b.RunParallel(func(p *testing.PB) {
		e := finalEvent()
		for p.Next() {
			l.Append(e)
		}
	})
}

// A request with a begin and an end, as at an entry.
func BenchmarkAppendBeginAndEnd(b *testing.B) {
	l, err := journal.Open(journal.Config{Dir: b.TempDir(), Node: "edge-1", MaxBytes: 128 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		e := finalEvent()
		e.Kind, e.Phase = analytics.KindRequest, analytics.PhaseBegin
		l.Append(e)
		e.Phase = analytics.PhaseEnd
		l.Append(e)
	}
}

// reportCPU starts a measurement of the processor time of the process, which a disk that is busy changes less than the time. The returned function reports it.
func reportCPU(b *testing.B) func() {
	start := cpuTime(b)
	return func() { b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op") }
}

func cpuTime(b *testing.B) int64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}

// Following a journal: what a line costs that is passed on as it is.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	l, err := journal.Open(journal.Config{Dir: dir, Node: "ams-1"})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	const events = 50_000
	for range events {
		l.Append(finalEvent())
	}
	b.ReportAllocs()
	defer reportCPU(b)()
	left := 0
	var r *journal.Follower
	for b.Loop() {
		if left == 0 {
			if r, err = journal.NewFollower(dir, "ams-1", nil); err != nil {
				b.Fatal(err)
			}
			if err := r.Look(); err != nil {
				b.Fatal(err)
			}
			left = events
		}
		if r.Peek() == nil {
			b.Fatal("no line", r.Err())
		}
		r.Next()
		left--
	}
}
