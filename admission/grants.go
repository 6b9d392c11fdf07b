package admission

import (
	"time"

	"colonnade/homes"
	"colonnade/permits"
)

// SetGrants sets on which engines permits may be granted, and which pools have their home here; nil = all, which is so before the first
// call. On all other engines no permit is granted once SetGrants has returned, so that what they hold only falls. It may be called before
// and after the table that names an engine or a pool is applied. g must not be modified afterwards.
func (m *Manager) SetGrants(g *homes.Grants) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grants = g
	for name, p := range m.pools {
		p.permits.SetHome(m.isHomeLocked(name)) // first: no newcomer waits for slots that go
	}
	changed, begun := m.followGrantsLocked(time.Now())
	if len(begun) > 0 {
		m.readmitLocked()
		m.wakeRun()
	}
	for p := range begun { // as in reconcileLocked: what is to be granted again waits for its health
		p.setEndpointsLocked(func(e *engine) permits.Endpoint {
			want := e.permitsEndpoint()
			want.Withheld = want.Withheld || begun[p][e]
			return want
		})
		p.setUsableLocked()
	}
	for p := range changed {
		p.setEndpointsLocked((*engine).permitsEndpoint)
	}
}

// isHomeLocked reports whether the pool has its home here.
func (m *Manager) isHomeLocked(pool string) bool {
	if m.grants == nil {
		return true
	}
	_, elsewhere := m.grants.Homes[pool]
	return !elsewhere
}

// grantLocked returns what may be granted on the engine at url, and whether anything may.
func (m *Manager) grantLocked(url string) (homes.Share, bool) {
	if m.grants == nil {
		return homes.Share{}, true
	}
	share, ok := m.grants.Engines[url]
	return share, ok
}

// followGrantsLocked brings every engine in line with the grants. It returns the pools of those that have changed and, for each pool of
// an engine that is granted on from now on or no longer, which are granted on from now on.
func (m *Manager) followGrantsLocked(now time.Time) (changed map[*Pool]bool, begun map[*Pool]map[*engine]bool) {
	changed, begun = map[*Pool]bool{}, map[*Pool]map[*engine]bool{}
	for url, e := range m.engines {
		share, granted := m.grantLocked(url)
		if e.pool == nil || granted == e.granted && share == e.share {
			continue
		}
		changed[e.pool] = true
		if was := e.granted; granted != was {
			if begun[e.pool] == nil {
				begun[e.pool] = map[*engine]bool{}
			}
			if granted {
				begun[e.pool][e] = true
				e.beginGrants(now, share.Limit)
			} else {
				e.endGrants(now)
			}
		}
		e.granted, e.share = granted, share
	}
	m.adoptReceivedLocked(now) // once all are granted: how many are out counts
	return changed, begun
}

// beginGrants prepares an engine for permits. Another server may have granted them until now, and have found its limit, unless that is 0.
func (e *engine) beginGrants(now time.Time, limit int) {
	if e.since = now; now.Sub(e.withheldSince) > e.endpoint.Health.Interval.Std() {
		e.health, e.since = health{}, time.Time{} // as of an engine that is new
		e.signs.flawless.Store(false)
	}
	if !e.auto() {
		return
	}
	e.gradient.resume(now)
	if limit > 0 {
		e.gradient.adopt(now, limit)
	}
}

// endGrants notes that another server may grant permits for the engine from now on. Only that server checks its health.
func (e *engine) endGrants(now time.Time) {
	e.since, e.withheldSince, e.cache.refused = now, now, false
}

// usable reports whether requests may wait for the engine.
func (e *engine) usable() bool { return !e.granted || e.health.usable() }

// Renew ends the use of all permits granted so far whose requests were not sent yet; see [permits.Fence.Renew]. A caller that withdraws
// grants as well calls SetGrants first.
func (m *Manager) Renew() { m.fence.Renew() }

// Held returns how many permits are held on each engine, by URL, in all pools; engines without any are left out. Requests that take no slot
// count on engines that get no more requests: an engine that is to be stopped must have finished them as well.
func (m *Manager) Held() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	total, free := map[string]int{}, map[string]int{}
	for _, p := range m.pools {
		p.permits.AddHeld(total)
		if f := p.free.Load(); f != nil {
			f.AddHeld(free)
		}
	}
	for url, n := range free {
		if e := m.engines[url]; e == nil || !e.endpoint.Serves() {
			total[url] += n
		}
	}
	return total
}

// Limits returns the limit that was found for each engine with concurrency: auto on which permits may be granted, by URL. Engines of
// which nothing was learned are left out.
func (m *Manager) Limits() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]int{}
	for url, e := range m.engines {
		if e.pool != nil && e.granted && e.auto() && e.gradient.found() {
			found[url] = int(e.gradient.limit)
		}
	}
	return found
}

// StandIns returns how many requests wait in the pool because its home did not answer.
func (m *Manager) StandIns(pool string) int {
	if p, ok := m.Pool(pool); ok {
		return p.permits.StandIns()
	}
	return 0
}

// RefuseStandIns refuses the requests that wait in the pool because its home did not answer.
func (m *Manager) RefuseStandIns(pool string) {
	if p, ok := m.Pool(pool); ok {
		p.permits.RefuseStandIns()
	}
}
