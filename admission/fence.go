package admission

import "time"

// SetFence sets up to when permits may be granted; a moment that is past ends grants at once. Before the first call there
// is no such moment. Requests wait while no permit may be granted, and are served after the next call.
func (m *Manager) SetFence(until time.Time) {
	m.fence.Set(until)
	for _, p := range m.Pools() {
		p.permits.Dispatch() // also if the last fence has just been valid: it may have passed in between
	}
}

// GrantsEnabled reports whether permits may be granted now.
func (m *Manager) GrantsEnabled() bool { return m.fence.Valid() }
