package admission

import "time"

// SetFence says how long permits may be granted; a moment that is past ends it at once. Until it is first called,
// they may be without end. Requests wait while there is no right, and are served when it returns.
func (m *Manager) SetFence(until time.Time) {
	m.fence.Set(until)
	for _, p := range m.Pools() {
		p.permits.Dispatch() // also if the right was there a moment ago: it may have ended in between
	}
}

// GrantsEnabled says whether permits may be granted now.
func (m *Manager) GrantsEnabled() bool { return m.fence.Valid() }
