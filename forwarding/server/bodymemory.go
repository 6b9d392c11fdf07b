package server

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	// maxBodyMemory is the memory for bodies that are not whole yet, all together. There is always room for two, even
	// while they grow.
	maxBodyMemory = 512 << 20
	// minBuffer is where a body's memory begins. It grows with what has come, not with what was announced.
	minBuffer = 32 << 10
	// sizeClasses are kept for other bodies when they are free, each twice as large as the one before: up to 1 MiB.
	sizeClasses = 6
)

var errBodyMemory = errors.New("no memory for a further body")

// bodyMemory is the memory of a server's bodies. One that is whole is bounded by what may be in hand.
type bodyMemory struct {
	reading atomic.Int64           // bytes of those that are not whole yet
	spare   [sizeClasses]sync.Pool // of *[]byte
}

// reserve counts n more bytes of a body that is not whole yet, where one may have limit bytes.
func (b *bodyMemory) reserve(n, limit int) error {
	if b.reading.Add(int64(n)) > memoryLimit(limit) {
		b.release(n)
		return errBodyMemory
	}
	return nil
}

// release counts n bytes less.
func (b *bodyMemory) release(n int) { b.reading.Add(-int64(n)) }

// required is what a body must bring in each window.
func (b *bodyMemory) required(limit int) int {
	if b.reading.Load() > memoryLimit(limit)/2 {
		return minProgressLoaded
	}
	return minProgress
}

func memoryLimit(limit int) int64 { return max(maxBodyMemory, 4*int64(limit)) }

// sizeClass finds the spare size that has room for size bytes, if there is one.
func sizeClass(size int) (class int, ok bool) {
	class = bits.Len(uint((size - 1) / minBuffer))
	return class, class < sizeClasses
}

// roundUp is how much memory size bytes take.
func roundUp(size int) int {
	if class, ok := sizeClass(size); ok {
		return minBuffer << class
	}
	return size
}

// get returns memory for size bytes, rounded up, with none in it.
func (b *bodyMemory) get(size int) []byte {
	if class, ok := sizeClass(size); ok {
		if p, ok := b.spare[class].Get().(*[]byte); ok {
			return (*p)[:0]
		}
	}
	return make([]byte, 0, roundUp(size))
}

// put takes memory back that nobody uses any more.
func (b *bodyMemory) put(p []byte) {
	if class, ok := sizeClass(cap(p)); ok && cap(p) == minBuffer<<class {
		b.spare[class].Put(&p)
	}
}
