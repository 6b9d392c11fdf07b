package gossip

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// deadKept is how long a dead process is known.
	deadKept = 10 * time.Minute
	// maxMembers bounds the processes that are known: a colo has at most 32 servers, and each may have been restarted often.
	maxMembers = 1024
	// maxPart bounds the name of a node, as documents do, and a boot id.
	maxPart = 128
)

// process is one process of a server.
type process struct{ node, boot string }

// separator stands in no name of a node.
const separator = "#"

// name returns the name of the process as a member.
func (p process) name() string { return p.node + separator + p.boot }

// parseName is the inverse of name.
func parseName(name string) (process, bool) {
	node, boot, found := strings.Cut(name, separator)
	ok := found && node != "" && boot != "" && len(node) <= maxPart && len(boot) <= maxPart && !strings.Contains(boot, separator)
	return process{node, boot}, ok && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' })
}

// Member is a process of a sibling that has taken part.
type Member struct {
	Node, Boot string
	Address    string // host:port of its gossip
	Alive      bool
	Since      time.Time // when it was found to be alive, or dead
}

// members are the processes that are known, without this one.
type members struct {
	self    process
	changed chan struct{} // has a value after a change

	mu     sync.Mutex // guards the fields below
	known  map[process]Member
	closed bool // the library calls back a little longer than it runs
}

func newMembers(self process) *members {
	return &members{self: self, changed: make(chan struct{}, 1), known: map[process]Member{}}
}

func (m *members) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
}

// set records a member, and reports whether it is a sibling whose state has changed.
func (m *members) set(member Member) bool {
	p := process{member.Node, member.Boot}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.known[p]
	if p == m.self || m.closed || known && old.Alive == member.Alive && old.Address == member.Address {
		return false
	}
	m.known[p] = member
	maps.DeleteFunc(m.known, func(_ process, k Member) bool { return !k.Alive && member.Since.Sub(k.Since) > deadKept })
	select {
	case m.changed <- struct{}{}:
	default:
	}
	return true
}

// hasRoom reports whether a process may be recorded. The oldest dead one makes room.
func (m *members) hasRoom(p process) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.known[p]; known || p == m.self || len(m.known) < maxMembers {
		return true
	}
	var oldest *Member
	for _, k := range m.known {
		if !k.Alive && (oldest == nil || k.Since.Before(oldest.Since)) {
			oldest = &k
		}
	}
	if oldest == nil {
		return false
	}
	delete(m.known, process{oldest.Node, oldest.Boot})
	return true
}

func (m *members) alive(p process) (alive, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	member, known := m.known[p]
	return member.Alive, known
}

func (m *members) list() []Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.known), func(a, b Member) int {
		if a.Node == b.Node && a.Alive != b.Alive {
			return boolOrder(a.Alive)
		}
		return cmp.Or(cmp.Compare(a.Node, b.Node), b.Since.Compare(a.Since), cmp.Compare(a.Boot, b.Boot))
	})
}

// boolOrder returns the order of two values that differ, of which the first is given: true comes first.
func boolOrder(first bool) int {
	if first {
		return -1
	}
	return 1
}
