package node_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// Sinks that are dead, hang or are slow hold up neither requests nor another sink.
func TestSinksThatAreAwayDelayOnlyThemselves(t *testing.T) {
	ended := make(chan struct{})
	var hanging, slow atomic.Int64
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hanging.Add(1); <-ended }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(ended) })
	pace := make(chan struct{})
	isSlow := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { slow.Add(1); <-pace }))
	t.Cleanup(isSlow.Close)
	file := filepath.Join(t.TempDir(), "e.jsonl")
	const settings = "every=10ms&batch_events=10&name="
	p := startPlace(t, node.ServeConfig{Config: node.Config{Sinks: []string{
		"http://127.0.0.1:1/?" + settings + "dead", hangs.URL + "/?" + settings + "hangs", isSlow.URL + "/?" + settings + "slow", "file:" + file + "?" + settings + "well",
	}}})
	p.request(t)
	testkit.WaitFor(t, "a batch at each sink", func() bool { return hanging.Load() == 1 && slow.Load() == 1 && lines(file) == 1 })
	const requests = 200
	for range requests {
		p.request(t)
	}
	lag := map[string]uint64{}
	testkit.WaitFor(t, "all events at the sink that is well", func() bool { // which counts a batch a moment after its lines are in the file
		for _, s := range p.config(t).Sinks {
			lag[s.Name] = s.LagEvents
		}
		return lines(file) == requests+1 && lag["well"] == 0
	})
	if lag["dead"] != requests+1 || lag["hangs"] != requests+1 || lag["slow"] != requests+1 {
		t.Errorf("lags %v", lag)
	}
	close(pace) // from now on it takes every batch
	testkit.WaitFor(t, "all events at the slow sink", func() bool {
		_, text := testkit.Get("http://" + p.running.Admin + "/metrics")
		return strings.Contains(text, `colonnade_events_sink_lag_events{sink="slow"} 0`)
	})
	p.stop() // also with a sink that hangs
}

// A sink that takes nothing costs memory for one batch, however much waits for it.
func TestSinksThatAreAwayHoldOneBatch(t *testing.T) {
	const events, size = 10_000, 16 << 10
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "e.jsonl")
	l, err := journal.Open(journal.Config{Dir: dir, Node: "local-1"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		l.Append(&analytics.Event{EventID: fmt.Sprint(i), Kind: analytics.KindInference, Phase: analytics.PhaseEnd, Model: strings.Repeat("m", size)})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-ended }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(ended) })
	before := heap()
	const settings = "batch_bytes=1MiB&every=10ms&name="
	p := startPlace(t, node.ServeConfig{Config: node.Config{DataDir: dir, Sinks: []string{
		"http://127.0.0.1:1/?" + settings + "dead", hangs.URL + "/?" + settings + "hangs", "file:" + file + "?" + settings + "well",
	}}})
	testkit.WaitFor(t, "the backlog at the sink that is well", func() bool {
		sinks := p.config(t).Sinks
		return len(sinks) == 3 && sinks[2].Shipped == events && sinks[0].LagEvents == events && sinks[1].LagEvents == events
	})
	if after := heap(); after > before+(32<<20) {
		t.Errorf("%d MiB before, %d MiB with a backlog of %d MiB", before>>20, after>>20, events*size>>20)
	}
	p.stop()
}

// heap returns how many bytes are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
