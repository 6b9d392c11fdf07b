package simengine

import "sync"

// gate counts the callers inside until it is closed. A WaitGroup alone does not suffice: requests may arrive while
// close waits for the last one to end.
type gate struct {
	inside sync.WaitGroup

	mu     sync.Mutex // guards the field below
	closed bool
}

// enter reports whether the gate is open. If so, the caller must leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside.Add(1)
	return true
}

func (g *gate) leave() { g.inside.Done() }

// close refuses further callers and waits until all inside have left.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}
