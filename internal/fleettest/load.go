package fleettest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// HoldStreams takes n slots with streams, which must stall, until they are released.
func (f *Fleet) HoldStreams(t *testing.T, n int) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	busy := f.RunningRequests() + n
	for range n {
		all.Go(func() {
			if a, err := f.Post(ctx, "/chat/completions", ChatBody(8, true)); err == nil && !errors.Is(a.Err, context.Canceled) {
				t.Errorf("a stream that stalls ended: %d %v", a.Status, a.Err)
			}
		})
	}
	testkit.WaitFor(t, "the slots to be taken", func() bool { return f.RunningRequests() == busy })
	return func() {
		cancel()
		all.Wait()
	}
}

// Latencies sends requests with StubBody from four clients, and returns how long each took, sorted.
func (f *Fleet) Latencies(t *testing.T, requests int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range requests / 4 {
				began := time.Now()
				a := f.Chat(StubBody)
				d := time.Since(began)
				if a.Status != 200 {
					t.Errorf("answer %d: %.200q", a.Status, a.Body)
				}
				mu.Lock()
				took = append(took, d)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	return took
}

// LiveBytes returns the live heap and the stacks of this process, in bytes, after collections.
func LiveBytes() int64 {
	runtime.GC()
	runtime.GC() // what a sync.Pool holds survives one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) // HeapInuse would count the holes in half-empty spans
}
