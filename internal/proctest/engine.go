package proctest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
)

// Engine is a simulated engine inside the test. Its slots are as many as its limit, and it keeps a record of each request.
type Engine struct {
	Colo  string
	ID    string // in its colo
	URL   string
	Pool  string
	Limit int

	*simengine.Engine

	mu   sync.Mutex // guards the field below
	jobs []simengine.Job
}

func (f *Fleet) startEngines() {
	for _, colo := range f.config.Colos {
		for _, pool := range f.Pools() {
			for i := range f.config.Engines {
				f.StartEngine(fmt.Sprintf("%s-%d", pool, i+1), pool).Colo = colo
			}
		}
	}
}

// StartEngine starts one more engine in the first colo, without a document.
func (f *Fleet) StartEngine(id, pool string) *Engine {
	f.T.Helper()
	ip := "127.0.0.1"
	if f.network != nil {
		ip = f.network.engineIP
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		f.T.Fatal(err)
	}
	e := &Engine{Colo: Colo, ID: id, URL: "http://" + ln.Addr().String(), Pool: pool, Limit: f.config.Slots}
	e.Engine = simengine.New(simengine.Config{
		Slots: e.Limit, TTFT: f.config.TTFT, ITL: f.config.ITL, Tokens: 1 << 20, CacheBlocks: f.config.Cache, Watch: e.keep,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- simengine.Serve(ctx, ln, e.Engine) }()
	f.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.T.Error(err)
		}
		e.Close()
	})
	f.Engines = append(f.Engines, e)
	return e
}

func (e *Engine) keep(job simengine.Job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs = append(e.jobs, job)
}

// Jobs returns the requests that have left the engine.
func (e *Engine) Jobs() []simengine.Job {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.jobs)
}

// name returns the name of the engine in messages.
func (e *Engine) name() string { return e.Colo + "/" + e.ID }

// Excess is a time in which an engine had more requests at once than its limit.
type Excess struct {
	Engine   string
	From, To time.Time
	Most     int // requests above the limit
}

// lateEnd is how much later than its client an engine may notice, on a busy machine, that a request has been given up: its slot is
// granted again 250 ms after the client has left.
func lateEnd() time.Duration { return time.Duration(testkit.AtScale(1000, 0)) * time.Millisecond }

// Excesses returns the times in which the engine was over its limit, in order. They are made of the requests that have left it.
// Except in a soak, a request that its client has given up does not count in its last second.
func (e *Engine) Excesses() []Excess {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, job := range e.Jobs() {
		ended := job.Ended
		if !job.Served {
			ended = later(job.Arrived, ended.Add(-lateEnd()))
		}
		changes = append(changes, change{job.Arrived, 1}, change{ended, -1})
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(a.at.Compare(b.at), a.by-b.by)
	})
	var found []Excess
	for inFlight, i := 0, 0; i < len(changes); i++ {
		inFlight += changes[i].by
		over := inFlight - e.Limit
		switch {
		case over == 1 && changes[i].by > 0:
			found = append(found, Excess{Engine: e.name(), From: changes[i].at, Most: over})
		case over == 0 && changes[i].by < 0:
			found[len(found)-1].To = changes[i].at
		case over > 0:
			found[len(found)-1].Most = max(found[len(found)-1].Most, over)
		}
	}
	return found
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Gap is a time in which no request was started on an engine.
type Gap struct {
	Engine   string
	From, To time.Time
}

// Length returns how long the gap is.
func (g Gap) Length() time.Duration { return g.To.Sub(g.From) }

// LongestGap returns the longest time between two starts of requests on one engine that ends after since. It waits until a
// request that was started later than until has left each engine, so the load must go on.
func (f *Fleet) LongestGap(since, until time.Time) (longest Gap) {
	f.T.Helper()
	for _, e := range f.Engines {
		if g := e.longestGap(f, since, until); g.Length() > longest.Length() {
			longest = g
		}
	}
	return longest
}

func (e *Engine) longestGap(f *Fleet, since, until time.Time) (longest Gap) {
	f.T.Helper()
	var starts []time.Time
	testkit.WaitFor(f.T, "a request to end on engine "+e.name(), func() bool {
		starts = starts[:0]
		for _, job := range e.Jobs() {
			if !job.Began.IsZero() {
				starts = append(starts, job.Began)
			}
		}
		return slices.ContainsFunc(starts, until.Before)
	})
	slices.SortFunc(starts, time.Time.Compare)
	for i, at := range starts[1:] {
		if g := (Gap{e.name(), starts[i], at}); at.After(since) && !starts[i].After(until) && g.Length() > longest.Length() {
			longest = g
		}
	}
	return longest
}
