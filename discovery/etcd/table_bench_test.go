package etcd

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// BenchmarkTableOfLargeFleet measures one change and the table after it, of a fleet with 10 000 endpoints in 20 colos and 100 000 accounts.
func BenchmarkTableOfLargeFleet(b *testing.B) {
	now := time.Unix(1000, 0)
	s := newDocumentState(slog.New(slog.DiscardHandler))
	revision := int64(0)
	put := func(key, value string) {
		revision++
		s.put(Stored{Key: key, Value: []byte(value), Revision: revision}, now)
	}
	endpoint := func(i, weight int) (key, value string) {
		return fmt.Sprintf("endpoints/colo%d/e%d", i%20, i), fmt.Sprintf("url: http://h%d:8000\npool: p%d\nweight: %d", i, i/20%100, weight)
	}
	for i := range 100 {
		put(fmt.Sprintf("models/m%d", i), fmt.Sprintf("pool: p%d", i))
		put(fmt.Sprintf("pools/p%d", i), "queue: {limit: 100}")
	}
	for i := range 10_000 {
		put(endpoint(i, 1))
	}
	for i := range 100_000 {
		put(fmt.Sprintf("accounts/a%d", i), "weight: 2")
	}
	s.table(now)
	for name, change := range map[string]func(n int){
		"account changed":  func(n int) { put("accounts/a77", fmt.Sprintf("weight: %d", 1+n%1000)) },
		"account added":    func(n int) { put(fmt.Sprintf("accounts/new%d", n), "weight: 2") },
		"endpoint changed": func(n int) { put(endpoint(7, 1+n%1000)) },
		"endpoint added":   func(n int) { put(endpoint(10_000+n, 1)) },
		"model changed":    func(n int) { put("models/m7", fmt.Sprintf("pool: p7\nretry: {errors: %d}", n%16)) },
		"defaults changed": func(n int) { put("defaults", fmt.Sprintf("pool: {queue: {limit: %d}}", 1+n%1000)) },
		"pool changed":     func(n int) { put("pools/p7", fmt.Sprintf("permits: {per_endpoint: %d}", 1+n%1000)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				change(n)
				s.table(now)
			}
		})
	}
}
