package link

import (
	"sync"
	"sync/atomic"
)

// Flusher writes what streams of several links have left to be written together. The zero value is ready for use. Its methods may be
// called by several goroutines at once.
type Flusher struct {
	waits atomic.Bool // there are links

	mu    sync.Mutex // guards the field below
	links []*Link
}

// Flush writes what [Stream.TryWrite] has left, without waiting.
func (f *Flusher) Flush() {
	if f == nil || !f.waits.Load() {
		return
	}
	f.mu.Lock()
	links := f.links
	f.links = nil
	f.waits.Store(false)
	f.mu.Unlock()
	for _, l := range links {
		l.sender.flushDirty()
	}
}

func (f *Flusher) add(l *Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links = append(f.links, l)
	f.waits.Store(true)
}

// flushDirty is flush for the flusher.
func (s *sender) flushDirty() {
	s.mu.Lock()
	s.dirty = false
	s.mu.Unlock()
	s.flush()
}

// markDirty notes that the flusher has the link, and reports whether that is new.
func (s *sender) markDirty() (added bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	added = !s.dirty
	s.dirty = true
	return added
}
