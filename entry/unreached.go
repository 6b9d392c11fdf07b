package entry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"colonnade/fleet"
)

// Unreached is a colo server that has not answered the latest request of this entry. Its colo may serve all the same, by another server.
type Unreached struct {
	Colo  string    `json:"colo"`
	Node  string    `json:"node"`
	Since time.Time `json:"since"` // of the first failure since the server was last reached
	Last  time.Time `json:"last"`
	Times int       `json:"times"`
	Error string    `json:"error"` // the latest
}

type serverIn struct{ colo, node string }

// maxUnreached bounds the servers that are noted: verdicts may name any number of them.
const maxUnreached = 4096

// noteUnreached notes a request that did not reach a server.
func (o *observations) noteUnreached(s *fleet.Server, why error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pruneLocked()
	u, ok := o.unreached[serverIn{s.Colo, s.Node}]
	if !ok && len(o.unreached) >= maxUnreached {
		return
	}
	if !ok {
		u = Unreached{Colo: s.Colo, Node: s.Node, Since: now}
	}
	u.Last, u.Error = now, why.Error()
	u.Times++
	o.unreached[serverIn{s.Colo, s.Node}] = u
}

// noteReached notes a request that reached a server.
func (o *observations) noteReached(s *fleet.Server) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unreached, serverIn{s.Colo, s.Node})
}

// Unreached returns the servers that have not answered the latest request to them, sorted by colo and node.
func (e *Entry) Unreached() []Unreached {
	e.observed.mu.Lock()
	defer e.observed.mu.Unlock()
	e.observed.pruneLocked()
	return slices.SortedFunc(maps.Values(e.observed.unreached),
		func(a, b Unreached) int { return cmp.Or(cmp.Compare(a.Colo, b.Colo), cmp.Compare(a.Node, b.Node)) })
}
