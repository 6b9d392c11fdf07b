package server

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	// maxBodyMemory bounds the memory of unfinished bodies in all, in bytes. There is always room for two, even while they grow.
	maxBodyMemory = 512 << 20
	// minBuffer is the initial memory of a body, in bytes. It grows with what has arrived, not with what was announced.
	minBuffer = 32 << 10
	// sizeClasses is the number of sizes that are kept for other bodies, from minBuffer by factors of two: up to 1 MiB.
	sizeClasses = 6
)

var errBodyMemory = errors.New("no memory for another body")

// bodyMemory is the memory of the bodies of a server. Only unfinished bodies count against its limit; the number of complete ones is
// bounded by the requests in flight. Its methods may be called by several goroutines at once.
type bodyMemory struct {
	unfinished atomic.Int64           // bytes reserved
	free       [sizeClasses]sync.Pool // of *[]byte
}

// reserve counts n bytes for an unfinished body of at most limit bytes.
func (m *bodyMemory) reserve(n, limit int) error {
	if m.unfinished.Add(int64(n)) > memoryLimit(limit) {
		m.release(n)
		return errBodyMemory
	}
	return nil
}

// release ends the count of n bytes.
func (m *bodyMemory) release(n int) { m.unfinished.Add(-int64(n)) }

// required returns how many bytes of a body must arrive in each window.
func (m *bodyMemory) required(limit int) int {
	if m.unfinished.Load() > memoryLimit(limit)/2 {
		return minProgressLoaded
	}
	return minProgress
}

func memoryLimit(limit int) int64 { return max(maxBodyMemory, 4*int64(limit)) }

// sizeClass returns the smallest class for size bytes, if there is one.
func sizeClass(size int) (class int, ok bool) {
	class = bits.Len(uint((size - 1) / minBuffer))
	return class, class < sizeClasses
}

// roundUp returns the size of the memory for size bytes.
func roundUp(size int) int {
	if class, ok := sizeClass(size); ok {
		return minBuffer << class
	}
	return size
}

// get returns an empty slice with a capacity of at least size bytes.
func (m *bodyMemory) get(size int) []byte {
	if class, ok := sizeClass(size); ok {
		if p, ok := m.free[class].Get().(*[]byte); ok {
			return (*p)[:0]
		}
	}
	return make([]byte, 0, roundUp(size))
}

// put keeps the memory of p for other bodies.
func (m *bodyMemory) put(p []byte) {
	if class, ok := sizeClass(cap(p)); ok && cap(p) == minBuffer<<class {
		m.free[class].Put(&p)
	}
}
