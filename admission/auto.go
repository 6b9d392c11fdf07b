package admission

import "time"

// FirstByte is how an answer has begun.
type FirstByte struct {
	Work     Work
	After    time.Duration // since the request was sent
	Censored bool          // it had not come by then, and nobody waited any longer
	Token    bool          // it is the first token, which shows how busy the engine is
}

// ObserveFirstByte says how long the answer to a request took to begin. Failures are none of it: they are for [Pool.Failed].
func (p *Pool) ObserveFirstByte(g Grant, f FirstByte) {
	if !f.Censored {
		p.recordTTFT(&f)
	}
	if g.Endpoint.Auto == nil || !f.Token {
		return
	}
	s := g.sample()
	s.input, s.took, s.censored = f.Work.Input, f.After, f.Censored
	p.manager.adapt(g.Endpoint.URL, func(now time.Time, found *gradient) { found.observe(now, s) })
}

// Full says that the engine had no slot for a request though we counted one: nothing is sent there for a moment, and where
// the limit is found by us, it was too high.
func (p *Pool) Full(g Grant) {
	p.permits.MarkFull(g.Endpoint.URL, time.Now().Add(fullMarkDuration))
	if g.Endpoint.Auto == nil {
		return
	}
	s := g.sample()
	p.manager.adapt(g.Endpoint.URL, func(now time.Time, found *gradient) { found.full(now, s) })
}

func (g Grant) sample() sample { return sample{granted: g.grantedAt, held: g.Held()} }

// adapt changes what was found for the engine at url, and brings its slots in line.
func (m *Manager) adapt(url string, change func(time.Time, *gradient)) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.engines[url]; ok && e.auto() {
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

// auto says whether the engine's limit is the one that was found.
func (e *engine) auto() bool { return e.endpoint.Auto != nil }

// slots is the limit in force.
func (e *engine) slots() int {
	if e.auto() {
		return e.gradient.slots()
	}
	return e.endpoint.Concurrency
}

// updateGradientLocked follows the engine's document. What was found is kept for as long as the engine is known, also while its
// document says a number.
func (e *engine) updateGradientLocked(now time.Time, wasAuto bool) {
	auto := e.endpoint.Auto
	switch {
	case auto == nil:
	case e.gradient == nil:
		e.gradient = newGradient(auto.Min, auto.Max, auto.Begin)
	default:
		e.gradient.setBounds(now, auto.Min, auto.Max)
		if !wasAuto {
			e.gradient.resume(now)
		}
	}
}

// tickLocked lets time pass for engines that nobody speaks of.
func (m *Manager) tickLocked(now time.Time) {
	for _, e := range m.engines {
		if e.auto() && e.gradient.probe.phase != probeNone {
			e.adaptLocked(now, func(now time.Time, found *gradient) { found.tick(now) })
		}
	}
}
