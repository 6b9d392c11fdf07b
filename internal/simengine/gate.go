package simengine

import "sync"

// gate counts who is inside, until it is shut. A bare WaitGroup would not do:
// requests may arrive while somebody already waits for the last to end.
type gate struct {
	inside sync.WaitGroup

	mu   sync.Mutex // guards the field below
	shut bool
}

// enter reports whether the gate is open. If so, the caller must leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.inside.Add(1)
	return true
}

func (g *gate) leave() { g.inside.Done() }

// close lets nobody in any more and waits for everyone to leave.
func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.inside.Wait()
}
