package gossip_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"colonnade/discovery/gossip"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) { testkit.VerifyMain(m) }

// key returns a key made of one byte.
func key(b byte) []byte { return bytes.Repeat([]byte{b}, gossip.KeySize) }

// registry is what the registrations of a colo say.
type registry struct {
	mu       sync.Mutex // guards the field below
	siblings []gossip.Sibling
}

func (r *registry) list() []gossip.Sibling {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.siblings)
}

func (r *registry) put(s gossip.Sibling) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.siblings = slices.DeleteFunc(r.siblings, func(old gossip.Sibling) bool { return old.Node == s.Node })
	r.siblings = append(r.siblings, s)
}

// group is a colo of members in memory.
type group struct {
	t        *testing.T
	network  *network
	registry *registry
	members  []*member
}

// member is a member that runs.
type member struct {
	*gossip.Gossip
	config gossip.Config
	at     netip.AddrPort
	end    context.CancelFunc
	ended  chan error
}

func newGroup(t *testing.T, seed uint64) *group {
	return &group{t: t, network: newNetwork(seed), registry: &registry{}}
}

// start starts and registers the n-th process of the group. change may be nil.
func (g *group) start(node string, change func(*gossip.Config)) *member {
	n := len(g.members) + 1
	c := gossip.Config{
		Node: node, Boot: fmt.Sprint("boot", n), Colo: "ams", Keys: [][]byte{key(1)}, Siblings: g.registry.list, Logger: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&c)
	}
	h := g.network.host(fmt.Sprintf("10.0.0.%d:7946", n))
	m := &member{Gossip: gossip.NewOver(c, h, h.address), config: c, at: h.address, ended: make(chan error, 1)}
	m.run(g.t)
	g.registry.put(gossip.Sibling{Node: c.Node, Boot: c.Boot, Address: m.Address()})
	g.members = append(g.members, m)
	return m
}

func (m *member) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	m.end = cancel
	go func() { m.ended <- m.Run(ctx) }()
}

// stop ends all members, and waits until the goroutines of the library have ended too.
func (g *group) stop() {
	g.t.Helper()
	for _, m := range g.members {
		m.end()
	}
	for _, m := range g.members {
		if err := <-m.ended; err != nil {
			g.t.Error("Run:", err)
		}
	}
	time.Sleep(2 * time.Second)
}

// kill cuts a member from all others, and ends it: what it sends at its end is lost.
func (g *group) kill(m *member) {
	g.isolate(m)
	m.end()
}

// isolate cuts members from all others.
func (g *group) isolate(all ...*member) {
	g.network.setCut(func(from, to netip.AddrPort) bool {
		is := func(a netip.AddrPort) bool {
			return slices.ContainsFunc(all, func(m *member) bool { return m.at == a })
		}
		return is(from) != is(to)
	})
}

// sees reports whether m has found another member to be alive.
func (m *member) sees(other *member) bool {
	alive, _ := m.Alive(other.config.Node, other.config.Boot)
	return alive
}

// foundDead reports whether m has found another member to be dead.
func (m *member) foundDead(other *member) bool {
	alive, known := m.Alive(other.config.Node, other.config.Boot)
	return known && !alive
}

// knows reports whether m has ever heard of another member.
func (m *member) knows(other *member) bool {
	_, known := m.Alive(other.config.Node, other.config.Boot)
	return known
}

// together waits until all members see each other, and fails after the bound.
func (g *group) together(bound time.Duration, all ...*member) {
	g.t.Helper()
	g.within(bound, "all members see each other", func() bool {
		for _, m := range all {
			for _, other := range all {
				if m != other && !m.sees(other) {
					return false
				}
			}
		}
		return true
	})
}

// within waits until something holds, in the time of the bubble, and returns how long that took.
func (g *group) within(bound time.Duration, what string, holds func() bool) time.Duration {
	g.t.Helper()
	begun := time.Now()
	for !holds() {
		if time.Since(begun) > bound {
			g.t.Fatalf("after %v, it still does not hold that %s", bound, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(begun)
}
