package fleettest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/internal/testkit"
)

// traffic is clients that mind every answer: each is to be served in full.
type traffic struct {
	f        *Fleet
	all      sync.WaitGroup
	stopping atomic.Bool
	Served   atomic.Int64

	mu  sync.Mutex // guards the field below
	Bad map[string]int
}

// Drive sets clients going, each with one request after another. Beside being served, they may be told these statuses.
func (f *Fleet) Drive(clients int, body func(n int) string, mayBe ...int) *traffic {
	c := &traffic{f: f, Bad: map[string]int{}}
	for client := range clients {
		c.all.Go(func() {
			for n := client; !c.stopping.Load(); n++ {
				c.once(body(n), mayBe)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	f.T.Cleanup(c.Stop)
	return c
}

func (c *traffic) once(body string, mayBe []int) {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patience)
	defer cancel()
	a, err := c.f.Post(ctx, "/chat/completions", body)
	switch {
	case err != nil:
		c.note(err.Error())
	case slices.Contains(mayBe, a.Status):
	case a.Status != http.StatusOK || a.Err != nil || !a.Complete():
		end := a.Body[max(0, len(a.Body)-200):]
		if reason := a.Header.Get("x-colonnade-reason"); reason != "" {
			end = reason
		}
		c.note(fmt.Sprintf("%d %v, of %.40s: %q", a.Status, a.Err, body, end))
	default:
		c.Served.Add(1)
	}
}

func (c *traffic) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Bad[what]++
}

func (c *traffic) Stop() {
	c.stopping.Store(true)
	c.all.Wait()
}

// Check ends the traffic and expects that everybody was served.
func (c *traffic) Check() {
	c.f.T.Helper()
	c.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.f.T.Logf("%d requests were served", c.Served.Load())
	if c.Served.Load() == 0 {
		c.f.T.Error("no request was served")
	}
	for what, times := range c.Bad {
		c.f.T.Errorf("%d times: %s", times, what)
	}
}
