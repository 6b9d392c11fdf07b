package hop

import (
	"crypto/rand"
	"sync/atomic"
)

// issuerSize is the length of a sequence's random name, in characters of five bits.
const issuerSize = 16

// Sequence numbers the tokens that this process signs for one process of a server. Its methods may be called by several goroutines
// at once.
type Sequence struct {
	boot   string // of the server
	issuer string
	last   atomic.Uint64
}

// NewSequence returns a sequence for the process of a server that has this boot id.
func NewSequence(boot string) *Sequence {
	return &Sequence{boot: boot, issuer: rand.Text()[:issuerSize]}
}

// Boot returns the boot id of the server.
func (s *Sequence) Boot() string { return s.boot }

func (s *Sequence) next() uint64 { return s.last.Add(1) }
