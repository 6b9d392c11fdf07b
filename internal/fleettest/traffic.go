package fleettest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/internal/testkit"
)

// Traffic is clients that send one request after another, and record each that was not served in full.
type Traffic struct {
	f        *Fleet
	clients  sync.WaitGroup
	stopping atomic.Bool
	served   atomic.Int64

	mu       sync.Mutex // guards the field below
	failures map[string]int
}

// Drive starts clients. body makes the body of a client's nth request. Responses with a tolerated status are no failures.
func (f *Fleet) Drive(clients int, body func(n int) string, tolerated ...int) *Traffic {
	c := &Traffic{f: f, failures: map[string]int{}}
	for client := range clients {
		c.clients.Go(func() {
			for n := client; !c.stopping.Load(); n++ {
				c.once(body(n), tolerated)
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	f.T.Cleanup(c.stop)
	return c
}

func (c *Traffic) once(body string, tolerated []int) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	a, err := c.f.Post(ctx, "/chat/completions", body)
	switch {
	case err != nil:
		c.fail(err.Error())
	case slices.Contains(tolerated, a.Status):
	case a.Status != http.StatusOK || a.Err != nil || !a.Complete():
		end := a.Body[max(0, len(a.Body)-200):]
		if reason := a.Header.Get("x-colonnade-reason"); reason != "" {
			end = reason
		}
		c.fail(fmt.Sprintf("%d %v, of %.40s: %q", a.Status, a.Err, body, end))
	default:
		c.served.Add(1)
	}
}

func (c *Traffic) fail(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[what]++
}

func (c *Traffic) stop() {
	c.stopping.Store(true)
	c.clients.Wait()
}

// WaitServed waits until n further requests were served.
func (c *Traffic) WaitServed(n int64) {
	c.f.T.Helper()
	n += c.served.Load()
	testkit.WaitFor(c.f.T, "further requests to be served", func() bool { return c.served.Load() >= n })
}

// Stop ends the traffic, and returns how many requests were served and how often each failure occurred.
func (c *Traffic) Stop() (served int64, failures map[string]int) {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served.Load(), maps.Clone(c.failures)
}

// Check ends the traffic and expects that every request was served.
func (c *Traffic) Check() {
	c.f.T.Helper()
	served, failures := c.Stop()
	c.f.T.Logf("%d requests were served", served)
	if served == 0 {
		c.f.T.Error("no request was served")
	}
	for what, times := range failures {
		c.f.T.Errorf("%d times: %s", times, what)
	}
}
