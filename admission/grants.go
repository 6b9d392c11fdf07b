package admission

import "colonnade/homes"

// SetGrants sets on which engines permits may be granted, and which pools have their home here; nil = all, which is so before the first
// call. On all other engines no permit is granted once SetGrants has returned, so what they hold only falls. It may be called before and
// after the table that names an engine or a pool is applied. g must not be modified afterwards.
func (m *Manager) SetGrants(g *homes.Grants) { panic("not yet") }

// Renew ends the use of all permits granted so far that were not sent yet; see [permits.Fence.Renew]. A caller that withdraws grants as
// well calls SetGrants first.
func (m *Manager) Renew() { m.fence.Renew() }

// Held returns how many permits are held on each engine, by URL, in all pools; engines without any are left out.
func (m *Manager) Held() map[string]int { panic("not yet") }

// Limits returns the limit that was found for each engine with concurrency: auto on which permits may be granted, by URL.
func (m *Manager) Limits() map[string]int { panic("not yet") }

// StandIns returns how many requests wait in the pool because its home did not answer.
func (m *Manager) StandIns(pool string) int { panic("not yet") }

// RefuseStandIns refuses the requests that wait in the pool because its home did not answer.
func (m *Manager) RefuseStandIns(pool string) { panic("not yet") }
