package admission

import (
	"time"

	"colonnade/balance"
	"colonnade/fleet"
)

// Constants for tests from outside the package.
const (
	FailuresToEject   = failuresToEject
	FullMarkDuration  = fullMarkDuration
	MinEjection       = minEjection
	MinSamples        = minSamples
	ProbeMaxDuration  = probeMaxDuration
	ReconcileInterval = reconcileInterval
	WindowLen         = windowLen
)

// SetFoundLimit sets the limit that was found for the engine at url, if its document says concurrency: auto.
func (m *Manager) SetFoundLimit(url string, limit int) {
	m.adapt(url, func(now time.Time, g *gradient) { g.setLimit(now, float64(limit)) })
}

// BeginLimitProbe begins a probe of the engine at url that has lowered its limit by so many slots.
func (m *Manager) BeginLimitProbe(url string, below int) {
	m.adapt(url, func(now time.Time, g *gradient) {
		g.probe.phase, g.probe.below, g.probe.began = probeHold, below, now
	})
}

// ApplyModels takes the models of a table, as Apply does among other things.
func (m *Manager) ApplyModels(t *fleet.Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applyModelsLocked(t)
}

// PublishedLacks is another value each time that what the pool's engines lack was published.
func (p *Pool) PublishedLacks() any { return p.lacking.Load() }

// WhileApplying calls f while the mutex of m is held, as it is while a table is applied.
func (m *Manager) WhileApplying(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// Policies returns the policies by the names of documents.
func Policies() map[string]balance.Policy { return policies }

// PublishLacks publishes all that the engines of the pool lack, as after a change of its documents.
func (p *Pool) PublishLacks() {
	p.manager.mu.Lock()
	defer p.manager.mu.Unlock()
	p.publishLacksLocked()
}
