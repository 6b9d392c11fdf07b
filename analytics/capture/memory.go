package capture

import "sync/atomic"

// maxHeld is the memory of all records of a node that are not written yet, in bytes.
const maxHeld = 64 << 20

// memory is what all records that are not written yet have together.
type memory struct{ held atomic.Int64 }

// take takes n bytes, and reports whether there was room for them.
func (m *memory) take(n int) bool {
	if m.held.Add(int64(n)) <= maxHeld {
		return true
	}
	m.held.Add(-int64(n))
	return false
}

func (m *memory) give(n int) { m.held.Add(-int64(n)) }
