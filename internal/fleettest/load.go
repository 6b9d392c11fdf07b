package fleettest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// HoldStreams takes n slots with streams that stall, until released.
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

// Latencies sends requests likewise, and returns how long each took, the shortest first.
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
