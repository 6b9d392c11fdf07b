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

// ErrNotChecked is the error of a health check that was not made, because of a fault of this node.
var ErrNotChecked = errors.New("endpoint not checked")

// report changes the health of the engine at url, and with it whether its pool uses the engine.
func (m *Manager) report(url string, change func(*health)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.engines[url]
	if !ok || !e.granted {
		return // of an engine on which another server grants permits, that server judges
	}
	m.changeLocked(e, time.Now(), change)
}

// changeLocked changes the health of e, and with it whether its pool uses e.
func (m *Manager) changeLocked(e *engine, now time.Time, change func(*health)) {
	before, refusing := e.health.state(), e.health.refusing
	change(&e.health)
	e.signs.flawless.Store(e.health.flawless())
	after := e.health.state()
	if e.health.refusing && !refusing {
		e.wake()
	}
	if before == after {
		return
	}
	m.logState(e, before, after)
	e.since = now
	if after == stateSilent {
		e.since = now.Add(-e.health.silence.mute)
	}
	if e.pool != nil {
		e.pool.permits.SetUsable(e.endpoint.URL, e.usable())
		if free := e.pool.free.Load(); free != nil {
			free.SetUsable(e.endpoint.URL, e.usable())
		}
	}
	if e.health.ejected {
		e.wake()
	}
}

// logState logs a change of state: the return of an engine is no fault, and has no error.
func (m *Manager) logState(e *engine, before, after string) {
	facts := []any{"endpoint", e.endpoint.ID, "url", e.endpoint.URL, "pool", e.endpoint.Pool, "state", after, "was", before}
	if after == stateUp {
		m.logger.Info("endpoint state changed", facts...)
		return
	}
	m.logger.Warn("endpoint state changed", append(facts, "error", e.health.reason())...)
}

// mayEjectLocked reports whether one more endpoint of p may be ejected: never more than half of those that may get requests are.
func (m *Manager) mayEjectLocked(p *Pool) bool {
	all, out := 0, 1
	for _, e := range m.engines {
		if e.pool == p && e.granted && !e.endpoint.Draining() {
			all++
			if e.health.ejected {
				out++
			}
		}
	}
	return 2*out <= all
}

// readmitLocked ends ejections where documents have left a pool so few endpoints that more than half are ejected.
func (m *Manager) readmitLocked() {
	all, out := map[*Pool]int{}, map[*Pool][]*engine{}
	for _, e := range m.engines {
		if !e.granted || e.endpoint.Draining() {
			continue
		}
		all[e.pool]++
		if e.health.ejected {
			out[e.pool] = append(out[e.pool], e)
		}
	}
	for p, ejected := range out {
		slices.SortFunc(ejected, func(a, b *engine) int { return a.health.until.Compare(b.health.until) })
		for i := 0; p != nil && 2*(len(ejected)-i) > all[p]; i++ {
			ejected[i].health.readmit()
			ejected[i].signs.flawless.Store(false)
			ejected[i].since = time.Now()
		}
	}
}

// Run makes health checks, and brings slots in line that pools hand on to each other, until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	monitors := map[string]context.CancelFunc{}
	var running sync.WaitGroup
	defer running.Wait()
	settle := time.NewTicker(reconcileInterval)
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-settle.C:
			m.reconcile()
		case <-m.wake:
			m.watch(ctx, monitors, &running)
		}
	}
}

// watch starts a monitor for every engine of a pool on which permits may be granted, and ends the monitors of the others. It does the same with the
// reading of their events.
func (m *Manager) watch(ctx context.Context, monitors map[string]context.CancelFunc, running *sync.WaitGroup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for url, e := range m.engines {
		_, watched := monitors[url]
		switch {
		case e.pool != nil && e.granted && !watched:
			own, cancel := context.WithCancel(ctx)
			monitors[url] = cancel
			running.Go(func() { m.monitor(own, e) })
			if m.readFigures != nil {
				running.Go(func() { m.followFigures(own, e) })
			}
		case watched && (e.pool == nil || !e.granted):
			monitors[url]()
			delete(monitors, url)
		}
		m.followCacheLocked(ctx, e, running)
		if e.pool == nil {
			delete(m.engines, url)
		}
	}
}

// monitor checks one engine: at once, then at its interval, and when an ejection ends.
func (m *Manager) monitor(ctx context.Context, e *engine) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.recheck:
		case <-next.C:
			m.check(ctx, e)
		}
		next.Reset(m.untilNextCheck(e))
	}
}

// check makes one health check of e.
func (m *Manager) check(ctx context.Context, e *engine) {
	doc := m.documentOf(e)
	began, timeout := time.Now(), doc.Health.Timeout.Std()
	limited, cancel := context.WithTimeout(ctx, timeout)
	err := m.healthCheck(limited, doc)
	cancel()
	now := time.Now()
	took := now.Sub(began)
	late := isTimeout(err)
	if ctx.Err() != nil || errors.Is(err, ErrNotChecked) || late && took > timeout+maxListenGap {
		return // nothing is known of the engine: this node was stopped meanwhile, or had no processor
	}
	if late && m.mayBeLate(e) {
		m.report(doc.URL, func(h *health) { h.silence.timedOut(took) })
		return
	}
	if err == nil {
		e.signs.received.Store(true) // also this shows that it lives
	}
	m.noteCheck(e, err)
	wasOut := false
	m.report(doc.URL, func(h *health) {
		wasOut = h.down || h.refusing || h.checkFailures > 0
		if err == nil && (wasOut || !h.answered) {
			e.readAgain()
		}
		h.checked(now, err)
	})
	if err == nil && wasOut {
		m.forgetLacks(doc.URL)
	}
}

func (m *Manager) documentOf(e *engine) *fleet.Endpoint {
	m.mu.Lock()
	defer m.mu.Unlock()
	return e.endpoint
}

// mayBeLate reports whether a health check that times out says only as much as the silence of the engine's requests: it may be busy, or is
// silent already.
func (m *Manager) mayBeLate(e *engine) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.pool == nil {
		return false
	}
	if e.health.silence.silent {
		return true
	}
	for _, s := range e.pool.permits.Endpoints() {
		if s.URL == e.endpoint.URL {
			return s.Held+s.Taken > 0
		}
	}
	return false
}

// untilNextCheck is the interval, jittered so that many endpoints are not checked at the same time; less if an ejection
// ends sooner, and 0 if a check is due.
func (m *Manager) untilNextCheck(e *engine) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.checkDue {
		e.checkDue = false
		return 0
	}
	interval := e.health.checkInterval(e.endpoint.Health.Interval.Std())
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

// DeadEndpoints returns the keys of endpoints whose lease has expired and whose health checks fail too.
func (m *Manager) DeadEndpoints() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for _, e := range m.engines {
		key := string(fleet.KindEndpoint) + "/" + e.endpoint.Colo + "/" + e.endpoint.ID
		if e.pool != nil && e.granted && e.health.fails() && slices.Contains(m.suspects, key) {
			keys = append(keys, key)
		}
	}
	return keys
}
