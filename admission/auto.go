package admission

import "time"

// FirstByte is when an answer began.
type FirstByte struct {
	Work     Work
	At       time.Time     // a moment ago; zero = now
	After    time.Duration // since the request was sent
	Censored bool          // it had not come after that time, and was not waited for any longer
	Token    bool          // it is the first token, which shows how busy the engine is
}

// ObserveFirstByte reports how long the answer to a request took to begin. A failure is reported to [Pool.Failed] only.
func (p *Pool) ObserveFirstByte(g Grant, f FirstByte) {
	if !f.Censored {
		p.recordTTFT(&f)
		if !g.free {
			p.permits.ReportFirstByte(g.Endpoint.URL, f.Work.Input, f.After)
		}
	}
	if g.Endpoint.Auto == nil || !f.Token || g.free {
		return
	}
	s := g.sample()
	s.input, s.took, s.censored = f.Work.Input, f.After, f.Censored
	p.manager.adapt(g.Endpoint.URL, func(now time.Time, limit *gradient) { limit.observe(now, s) })
}

// Full reports that the engine had no slot for a request, though by our count it had: it gets no request for a moment, and
// with concurrency: auto, its limit was too high.
func (p *Pool) Full(g Grant) {
	if g.free {
		p.freePermits().MarkFull(g.Endpoint.URL, time.Now().Add(fullMarkDuration))
		return
	}
	p.permits.MarkFull(g.Endpoint.URL, time.Now().Add(fullMarkDuration))
	if g.Endpoint.Auto == nil {
		return
	}
	s := g.sample()
	p.manager.adapt(g.Endpoint.URL, func(now time.Time, limit *gradient) { limit.full(now, s) })
}

func (g Grant) sample() sample { return sample{granted: g.grantedAt, held: g.Held()} }

// adapt changes the gradient of the engine at url, and its slots with it.
func (m *Manager) adapt(url string, change func(time.Time, *gradient)) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.engines[url]; ok && e.adapts() && e.granted {
		e.adaptLocked(now, change)
	}
}

func (e *engine) adaptLocked(now time.Time, change func(time.Time, *gradient)) {
	before := e.slots()
	change(now, e.gradient)
	if after := e.slots(); after != before && e.pool != nil {
		e.pool.permits.Resize(e.endpoint.URL, after)
	}
}

// adapts reports whether answers move the limit of the engine. Those of an engine that drains show how fast it is without new requests.
func (e *engine) adapts() bool { return e.auto() && !e.endpoint.Draining() }

// auto reports whether the engine's document says concurrency: auto.
func (e *engine) auto() bool { return e.endpoint.Auto != nil }

// slots is the limit in force.
func (e *engine) slots() int {
	if e.auto() {
		return e.gradient.slots()
	}
	return e.endpoint.Concurrency
}

// updateGradientLocked follows the engine's document. The limit that was found is kept for as long as the engine is known,
// also while its document says a number, or that it drains. wasAdapting says whether answers moved the limit before.
func (e *engine) updateGradientLocked(now time.Time, wasAdapting bool) {
	auto := e.endpoint.Auto
	switch {
	case auto == nil:
	case e.gradient == nil:
		e.gradient = newGradient(auto.Min, auto.Max, auto.Begin)
	default:
		e.gradient.setBounds(now, auto.Min, auto.Max)
		if !wasAdapting {
			e.gradient.resume(now)
		}
	}
}

// tickLocked ends limit probes that take too long, also on engines without requests.
func (m *Manager) tickLocked(now time.Time) {
	for _, e := range m.engines {
		if e.adapts() && e.granted && e.gradient.probe.phase != probeNone {
			e.adaptLocked(now, func(now time.Time, limit *gradient) { limit.tick(now) })
		}
	}
}
