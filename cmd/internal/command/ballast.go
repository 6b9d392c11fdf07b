package command

import "os"

// ballastBytes is the size of the ballast, and so the most memory that it can add to a node.
const ballastBytes = 32 << 20

// Ballast is memory of the heap that a node allocates and never touches, so that its garbage collector runs less often. Without it, a node
// whose live heap is a few MiB collects its garbage after each few MiB, which is after a few hundred requests. The collector counts the
// ballast as live, and lets that much more garbage come together. The kernel backs no page of the ballast with memory. A larger GOGC would
// have the same effect, but would also multiply a large live heap.
//
// The zero value holds nothing.
type Ballast struct{ memory []byte }

// Take allocates the ballast, which collects the garbage of the start. It allocates nothing if the operator has set GOGC or GOMEMLIMIT.
func (b *Ballast) Take() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		b.memory = make([]byte, ballastBytes)
	}
}

// Release gives the ballast back. A node defers it, so that the collector keeps the ballast until then.
func (b *Ballast) Release() { b.memory = nil }
