package admission_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// BenchmarkApplyModels takes a table in which one document of a model has changed, beside ten thousand endpoints in a thousand pools with two
// models each, one of them with an adapter.
func BenchmarkApplyModels(b *testing.B) {
	var yaml strings.Builder
	for i := range 1000 {
		pool := fmt.Sprint("p", i)
		for j := range 10 {
			yaml.WriteString(endpoints(pool, 8, fmt.Sprint("e", i, "-", j)) + "---\n")
		}
		fmt.Fprintf(&yaml, "key: models/m%d\npool: %s\n---\nkey: models/a%d\npool: %s\nadapter: sql\n---\n", i, pool, i, pool)
	}
	// No Run: ten thousand health checks would compete for the mutex.
	s := &scenario{TB: b, documents: document.NewSet()}
	s.Manager = admission.NewManager("ams", s.checkHealth, slog.New(slog.DiscardHandler))
	s.put(yaml.String() + "key: models/m7\npool: p7\n")
	var tables [2]*fleet.Table
	for i := range tables {
		tables[i] = s.table(fmt.Sprintf("key: models/m7\npool: p7\nupstream_name: v%d\n", i))
	}
	b.Run("models", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.ApplyModels(tables[i%2])
		}
	})
	b.Run("table", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.Apply(tables[i%2])
		}
	})
	b.Run("request beside it", func(b *testing.B) {
		var longest []time.Duration
		for i := 0; b.Loop(); i++ {
			longest = append(longest, s.longestRequest(func() { s.Apply(tables[i%2]) }))
		}
		slices.Sort(longest)
		b.ReportMetric(float64(longest[len(longest)/2].Nanoseconds()), "ns/op") // the median, since other processes interrupt some
	})
}

// longestRequest returns how long a request for a permit, its success and its end took at most while f ran.
func (s *scenario) longestRequest(f func()) (longest time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		began := time.Now()
		g := s.take("p7")
		s.pool("p7").Succeeded(g.Endpoint)
		g.Release()
		longest = max(longest, time.Since(began))
		select {
		case <-done:
			return longest
		default:
		}
	}
}

// BenchmarkNoteAdapters takes the adapters in use, and the list, of one of twenty engines, each of which lists every second adapter.
func BenchmarkNoteAdapters(b *testing.B) {
	for _, adapters := range []int{500, 1000} {
		s := &scenario{TB: b, documents: document.NewSet()}
		s.Manager = admission.NewManager("ams", s.checkHealth, slog.New(slog.DiscardHandler))
		var yaml strings.Builder
		yaml.WriteString("key: models/base\npool: a\n")
		for i := range adapters {
			fmt.Fprintf(&yaml, "---\nkey: models/m%d\npool: a\nadapter: adapter-%d\n", i, i)
		}
		for i := range 20 {
			yaml.WriteString("---\n" + endpoints("a", 8, fmt.Sprint("e", i)))
		}
		s.put(yaml.String())
		var lists [2][]string
		for i := range adapters {
			lists[i%2] = append(lists[i%2], fmt.Sprint("adapter-", i))
		}
		for i := range 20 {
			s.NoteModels(fmt.Sprintf("http://e%d:8000", i), lists[i%2])
		}
		b.Run(fmt.Sprintf("used/adapters=%d", adapters), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.NoteAdapters("http://e0:8000", lists[0][i%2:3])
			}
		})
		b.Run(fmt.Sprintf("listed/adapters=%d", adapters), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.NoteModels("http://e0:8000", lists[i%2])
			}
		})
	}
}
