package admission

import (
	"time"

	"colonnade/permits"
)

// Stats is one pool as /debug/pools shows it.
type Stats struct {
	permits.Stats
	MinTTFT []MinTTFT `json:"min_ttft"` // by model, then path, then streamed
}

// MinTTFT is the least time from dispatch to the first byte that requests of one class have lately taken. A permit that
// comes later than that before a request's deadline is of no use to it; for a request that asks less of an engine than
// these did, the time is less in proportion.
type MinTTFT struct {
	Model    string  `json:"model"`
	Path     string  `json:"path"`
	Streamed bool    `json:"streamed"`
	Millis   float64 `json:"ms"`
}

// Stats returns the pool's state but for what [permits.Pool.Stats] leaves out, with the health of its endpoints.
func (p *Pool) Stats() permits.Stats {
	s := p.permits.Stats()
	s.NoSlot = p.freeStats(0)
	p.describe(&s)
	return s
}

// DetailedStats returns the pool's whole state, and names at most so many accounts.
func (p *Pool) DetailedStats(accounts int) Stats {
	s := Stats{Stats: p.permits.DetailedStats(accounts), MinTTFT: p.ttft.stats(time.Now())}
	s.NoSlot = p.freeStats(accounts)
	p.describe(&s.Stats)
	return s
}

// describe adds what the pool's permits do not know: its name, and the health of its endpoints.
func (p *Pool) describe(s *permits.Stats) {
	s.Pool = p.name
	s.Lacks = p.lackStats()
	documents := *p.endpoints.Load()
	now := time.Now()
	p.manager.mu.Lock()
	defer p.manager.mu.Unlock()
	for i := range s.Endpoints {
		h := &s.Endpoints[i].Health
		h.State = "gone"
		document, named := documents[s.Endpoints[i].URL]
		if !named {
			continue
		}
		h.ID = document.ID
		if a := document.Auto; a != nil {
			h.Auto = &permits.AutoStats{Min: a.Min, Max: a.Max}
		}
		if e, ok := p.manager.engines[s.Endpoints[i].URL]; ok {
			e.describeLocked(h, now)
		}
	}
}

// describeLocked adds the health of the engine. The manager's mutex is held.
func (e *engine) describeLocked(h *permits.Health, now time.Time) {
	h.State, h.Reason = e.health.state(), e.health.reason()
	switch {
	case !e.granted && e.endpoint.Concurrency > 0:
		h.State, h.Reason = "withheld", "" // the server that may grant permits knows its health
	case e.endpoint.Draining():
		h.State, h.Reason = stateDraining, e.endpoint.StateReason
	case !e.granted:
		h.State, h.Reason = "withheld", ""
	}
	if !e.since.IsZero() && h.State != stateDraining {
		seconds := max(0, now.Sub(e.since).Seconds())
		h.StateSeconds = &seconds
	}
	h.Engine, h.Cache = e.figures.stats(now, e.endpoint), e.cacheStats()
	if h.Auto != nil && e.gradient != nil {
		h.Auto.Samples = e.gradient.samples
	}
}
