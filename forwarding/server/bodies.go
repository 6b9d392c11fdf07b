package server

import (
	"errors"
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	// maxReading is the memory for bodies that are not whole yet, all together. There is always room for two, even
	// while they grow.
	maxReading = 512 << 20
	// firstPiece is where a body's memory begins. It grows with what has come, not with what was announced.
	firstPiece = 32 << 10
	// spareSizes are kept for other bodies when they are free, each twice as large as the one before: up to 1 MiB.
	spareSizes = 6
)

var errNoRoom = errors.New("no memory for a further body")

// bodies is the memory of a server's bodies. One that is whole is bounded by what may be in hand.
type bodies struct {
	reading atomic.Int64          // bytes of those that are not whole yet
	spare   [spareSizes]sync.Pool // of *[]byte
}

// take counts n more bytes of a body that is not whole yet, where one may have limit bytes.
func (b *bodies) take(n, limit int) error {
	if b.reading.Add(int64(n)) > bound(limit) {
		b.done(n)
		return errNoRoom
	}
	return nil
}

// done counts n bytes less.
func (b *bodies) done(n int) { b.reading.Add(-int64(n)) }

// due is what a body must bring in each window.
func (b *bodies) due(limit int) int {
	if b.reading.Load() > bound(limit)/2 {
		return fastProgress
	}
	return progress
}

func bound(limit int) int64 { return max(maxReading, 4*int64(limit)) }

// sizeClass finds the spare size that has room for size bytes, if there is one.
func sizeClass(size int) (class int, ok bool) {
	class = bits.Len(uint((size - 1) / firstPiece))
	return class, class < spareSizes
}

// roundUp is how much memory size bytes take.
func roundUp(size int) int {
	if class, ok := sizeClass(size); ok {
		return firstPiece << class
	}
	return size
}

// get returns memory for size bytes, rounded up, with none in it.
func (b *bodies) get(size int) []byte {
	if class, ok := sizeClass(size); ok {
		if p, ok := b.spare[class].Get().(*[]byte); ok {
			return (*p)[:0]
		}
	}
	return make([]byte, 0, roundUp(size))
}

// put takes memory back that nobody uses any more.
func (b *bodies) put(p []byte) {
	if class, ok := sizeClass(cap(p)); ok && cap(p) == firstPiece<<class {
		b.spare[class].Put(&p)
	}
}
