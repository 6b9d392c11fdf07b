package server

import (
	"math/bits"
	"sync"
)

const (
	// minBuffer is the initial memory of a body, in bytes. It grows with what has arrived, not with what was announced.
	minBuffer = 32 << 10
	// sizeClasses is the number of sizes that are kept for other bodies, from minBuffer by factors of two: up to 1 MiB.
	sizeClasses = 6
)

// bodyBuffers keeps the memory of bodies that are over for others. Its methods may be called by several goroutines at once.
type bodyBuffers [sizeClasses]sync.Pool // of *[]byte

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
func (b *bodyBuffers) get(size int) []byte {
	if class, ok := sizeClass(size); ok {
		if p, ok := b[class].Get().(*[]byte); ok {
			return (*p)[:0]
		}
	}
	return make([]byte, 0, roundUp(size))
}

// put keeps the memory of p for other bodies.
func (b *bodyBuffers) put(p []byte) {
	if class, ok := sizeClass(cap(p)); ok && cap(p) == minBuffer<<class {
		b[class].Put(&p)
	}
}
