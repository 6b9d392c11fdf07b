package testkit

import (
	"bytes"
	"sync"
)

// Record keeps what is written to it, and can be read meanwhile.
type Record struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

func (r *Record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *Record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
