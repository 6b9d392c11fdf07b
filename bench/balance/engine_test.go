package balance

import (
	"testing"
	"time"
)

// An engine's metrics count a request as waiting until its prefill begins, and its blocks as used until it ends. A scrape shows the engine as
// it was then.
func TestMetricsOfEngine(t *testing.T) {
	const scrape = 50 * time.Millisecond
	now, scraped := newEngine(DefaultTiming(), chatBlock, 0), newEngine(DefaultTiming(), chatBlock, scrape)
	long := &Request{Input: 640, Output: 1, Chain: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}} // 64 ms of prefill
	short := &Request{Input: 64, Output: 1, Chain: []uint64{1}}
	first := map[*engine]job{}
	for _, e := range []*engine{now, scraped} {
		first[e] = e.begin(10*time.Millisecond, long)
		e.begin(20*time.Millisecond, short)
	}
	used := func(blocks int) float64 { return float64(blocks*chatBlock) / float64(DefaultTiming().CacheTokens) }
	want := func(e *engine, ms int, want gauges) {
		t.Helper()
		if got := e.metrics(time.Duration(ms) * time.Millisecond); got != want {
			t.Errorf("at %d ms: %+v, want %+v", ms, got, want)
		}
	}
	want(now, 20, gauges{waiting: 1, running: 1, usage: used(10)})
	want(now, 73, gauges{waiting: 1, running: 1, usage: used(10)})
	want(now, 74, gauges{running: 2, usage: used(10)})
	want(scraped, 49, gauges{})
	for e, j := range first {
		e.end(&j, long) // at 94 ms
	}
	want(now, 95, gauges{running: 1, usage: used(1)})
	want(scraped, 99, gauges{waiting: 1, running: 1, usage: used(10)})
	want(scraped, 100, gauges{running: 1, usage: used(1)})
}
