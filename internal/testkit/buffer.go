package testkit

import (
	"bytes"
	"sync"
)

// SyncBuffer is a buffer that may be written and read at the same time.
type SyncBuffer struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

func (r *SyncBuffer) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *SyncBuffer) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
