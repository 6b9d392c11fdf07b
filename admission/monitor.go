package admission

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"colonnade/fleet"
)

// ErrNotAsked is the error of a probe that did not come about, for want of something of our own.
var ErrNotAsked = errors.New("the endpoint was not asked")

// report changes the health of the engine at url, and what its pool may do with it.
func (d *Desk) report(url string, change func(*health)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.engines[url]
	if !ok {
		return
	}
	before := e.health.state()
	change(&e.health)
	after := e.health.state()
	if before == after {
		return
	}
	e.since = time.Now()
	d.logger.Warn("endpoint is "+after, "endpoint", e.endpoint.ID, "url", url, "pool", e.endpoint.Pool, "was", before,
		"why", e.health.because())
	if e.pool != nil {
		e.pool.permits.SetUsable(url, e.health.usable())
	}
	if e.health.ejected {
		e.wake()
	}
}

// mayEjectLocked reports whether one more endpoint of p may be out for passive reasons.
func (d *Desk) mayEjectLocked(p *Pool) bool {
	all, out := 0, 1
	for _, e := range d.engines {
		if e.pool == p {
			all++
			if e.health.ejected {
				out++
			}
		}
	}
	return 2*out <= all
}

// recallLocked takes ejected endpoints back where documents have made so few of their pool that more than half is out.
func (d *Desk) recallLocked() {
	all, out := map[*Pool]int{}, map[*Pool][]*engine{}
	for _, e := range d.engines {
		all[e.pool]++
		if e.health.ejected {
			out[e.pool] = append(out[e.pool], e)
		}
	}
	for p, ejected := range out {
		slices.SortFunc(ejected, func(a, b *engine) int { return a.health.until.Compare(b.health.until) })
		for i := 0; p != nil && 2*(len(ejected)-i) > all[p]; i++ {
			ejected[i].health.recall()
			ejected[i].since = time.Now()
		}
	}
}

// Run probes endpoints until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	monitors := map[string]context.CancelFunc{}
	var running sync.WaitGroup
	defer running.Wait()
	settle := time.NewTicker(settleEvery)
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-settle.C:
			d.resettle()
		case <-d.wake:
			d.watch(ctx, monitors, &running)
		}
	}
}

// watch starts a monitor for every engine that is in a pool, and ends those of the others.
func (d *Desk) watch(ctx context.Context, monitors map[string]context.CancelFunc, running *sync.WaitGroup) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for url, e := range d.engines {
		_, watched := monitors[url]
		switch {
		case e.pool != nil && !watched:
			own, cancel := context.WithCancel(ctx)
			monitors[url] = cancel
			running.Go(func() { d.monitor(own, e) })
		case e.pool == nil && watched:
			monitors[url]()
			delete(monitors, url)
			delete(d.engines, url)
		case e.pool == nil:
			delete(d.engines, url)
		}
	}
}

// monitor probes one engine: at once, then at its interval, and when an ejection ends.
func (d *Desk) monitor(ctx context.Context, e *engine) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.recheck:
		case <-next.C:
			d.check(ctx, e)
		}
		next.Reset(d.untilNextProbe(e))
	}
}

// check probes e once.
func (d *Desk) check(ctx context.Context, e *engine) {
	doc := d.documentOf(e)
	probe, cancel := context.WithTimeout(ctx, doc.Health.Timeout.Std())
	err := d.probe(probe, doc)
	cancel()
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, ErrNotAsked) || isTimeout(err) && d.busy(e) {
		return // slow while busy is not dead
	}
	now := time.Now()
	d.report(doc.URL, func(h *health) { h.probed(now, err) })
}

func (d *Desk) documentOf(e *engine) *fleet.Endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return e.endpoint
}

func (d *Desk) busy(e *engine) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.pool == nil {
		return false
	}
	for _, s := range e.pool.permits.Snapshot().Endpoints {
		if s.ID == e.endpoint.URL {
			return s.Held > 0
		}
	}
	return false
}

// untilNextProbe is the interval, jittered so that many endpoints are not probed at once; sooner if an ejection ends,
// and now if the engine is due.
func (d *Desk) untilNextProbe(e *engine) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.due {
		e.due = false
		return 0
	}
	interval := e.health.every(e.endpoint.Health.Interval.Std())
	wait := interval - interval/10 + rand.N(max(interval/5, 1))
	if e.health.ejected {
		wait = min(wait, time.Until(e.health.until))
	}
	return max(wait, 10*time.Millisecond)
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

// Departed returns the keys of endpoints whose registration has run out and whose health check fails too: nothing
// speaks for them any more.
func (d *Desk) Departed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var keys []string
	for _, e := range d.engines {
		key := string(fleet.KindEndpoint) + "/" + e.endpoint.Colo + "/" + e.endpoint.ID
		if e.pool != nil && e.health.down && e.health.failsProbes() && slices.Contains(d.suspects, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
