package simengine_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/internal/simengine"
)

// One slot and three requests a second apart: one runs, one waits for it, and one leaves while it waits.
func TestWatchRecordsEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var mu sync.Mutex
		var jobs []simengine.Job
		e := simengine.New(simengine.Config{Slots: 1, TTFT: 4 * time.Second, ITL: time.Second, Watch: func(j simengine.Job) {
			mu.Lock()
			defer mu.Unlock()
			jobs = append(jobs, j)
		}})
		var all sync.WaitGroup
		ask := func(prompt string, patience time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			all.Go(func() {
				defer cancel()
				defer func() { _ = recover() }() // net/http's order to cut the connection
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(
					`{"model":"m","stream":true,"max_tokens":3,"messages":[{"role":"user","content":"`+prompt+`"}]}`))
				e.ServeHTTP(httptest.NewRecorder(), r)
			})
			time.Sleep(time.Second)
		}
		ask("first of all", time.Minute)
		ask("second", time.Minute)
		ask("third", 2*time.Second)
		all.Wait()

		at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
		want := []simengine.Job{
			{Prompt: "third", Input: 1, Arrived: at(2), Ended: at(4)},
			{Prompt: "first of all", Input: 3, Tokens: 3, Served: true, Arrived: at(0), Began: at(0), Ended: at(6)},
			{Prompt: "second", Input: 1, Tokens: 3, Served: true, Arrived: at(1), Began: at(6), Ended: at(12)},
		}
		if len(jobs) != len(want) {
			t.Fatalf("got %d jobs: %+v", len(jobs), jobs)
		}
		for i, w := range want {
			if jobs[i] != w {
				t.Errorf("job %d is\n%+v, want\n%+v", i, jobs[i], w)
			}
		}
	})
}

// A new pace does not change a request that runs.
func TestSetPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var held []time.Duration
		e := simengine.New(simengine.Config{Slots: 2, TTFT: time.Second, ITL: time.Second, Watch: func(j simengine.Job) {
			mu.Lock()
			defer mu.Unlock()
			held = append(held, j.Ended.Sub(j.Began))
		}})
		ask := func() {
			e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/v1/completions",
				strings.NewReader(`{"model":"m","max_tokens":3,"prompt":"p"}`)))
		}
		var all sync.WaitGroup
		all.Go(ask)
		synctest.Wait()
		e.SetPace(10*time.Second, -1)
		all.Go(ask)
		all.Wait()
		if len(held) != 2 || held[0] != 3*time.Second || held[1] != 10*time.Second {
			t.Errorf("held their slots for %v, want 3s and 10s", held)
		}
	})
}
