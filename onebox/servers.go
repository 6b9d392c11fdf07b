package onebox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/node"
)

// MaxServers is the greatest number of servers of one colo.
const MaxServers = fleet.MaxServers

// ServerName returns the name of the nth server of a colo, from 1 on.
func ServerName(colo string, n int) string { return fmt.Sprintf("%s-%d", colo, n) }

// StartServer starts one more server of a colo, or starts one again that has ended, and adds it to Colos. It returns once the server
// serves; other nodes may not know it yet. StartServer must not be called while another goroutine reads Colos.
func (f *Fleet) StartServer(colo, node string) error {
	started, err := f.startServer(colo, node)
	if err != nil {
		return fmt.Errorf("colo server %s: %w", node, err)
	}
	f.Colos = slices.DeleteFunc(slices.Clone(f.Colos), func(c ColoNode) bool { return c.Node == node })
	f.Colos = append(f.Colos, started)
	return nil
}

// coloServers are the colo servers of this process. Servers join and leave while the entry looks for them.
type coloServers struct {
	mu      sync.Mutex // guards the fields below
	closed  bool
	running map[string]node.Running // by node name
	parts   map[string]*part        // likewise
}

func (s *coloServers) add(r node.Running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[r.Node] = r
}

// local returns the function that calls a colo server of this process; nil if the registered process is another one.
func (s *coloServers) local(registered *fleet.Server) peer.Func {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, found := s.running[registered.Node]; found && r.Boot == registered.Boot {
		return r.Do
	}
	return nil
}

// startColos starts the servers of all colos.
func (b *allInOne) startColos() error {
	b.servers.running, b.servers.parts = map[string]node.Running{}, map[string]*part{}
	b.teardown = append(b.teardown, b.endServers)
	for _, colo := range b.config.Colos {
		for n := range b.config.serversOf(colo) {
			if err := b.fleet.StartServer(colo, ServerName(colo, n+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Config) serversOf(colo string) int {
	if n, found := c.Servers[colo]; found {
		return n
	}
	return 1
}

func (c *Config) checkServers() error {
	for _, colo := range c.Colos {
		if n := c.serversOf(colo); n < 1 || n > MaxServers {
			return fmt.Errorf("colo %s cannot have %d servers: the number must be from 1 to %d", colo, n, MaxServers)
		}
	}
	return nil
}

// startColo starts one colo server.
func (b *allInOne) startColo(colo, name string) (ColoNode, error) {
	config := node.ColoConfig{Colo: colo, Config: b.node(name, colo, "127.0.0.1:0", "127.0.0.1:0")}
	if !b.config.NoGossip {
		config.Gossip = "127.0.0.1:0"
	}
	config.PeerTLS = b.peerTLS(peertls.Identity{Role: peertls.RoleColo, Colo: colo, Node: name})
	started := ColoNode{Colo: colo}
	p, err := b.startPart(name, func(ctx context.Context, ready func()) error {
		return node.RunColo(ctx, config, func(r node.Running) {
			started.Running = r
			b.servers.add(r)
			ready()
		})
	})
	if err != nil {
		return ColoNode{}, err
	}
	b.servers.mu.Lock()
	defer b.servers.mu.Unlock()
	if b.servers.closed {
		return ColoNode{}, errors.Join(errStopping, p.end())
	}
	b.servers.parts[name] = p
	return started, nil
}

var errStopping = errors.New("the fleet is stopping")

// endServers ends the colo servers at once, since each waits for a while until no more requests arrive.
func (b *allInOne) endServers() error {
	b.servers.mu.Lock()
	b.servers.closed = true
	parts := slices.Collect(maps.Values(b.servers.parts))
	b.servers.mu.Unlock()
	all := make([]error, len(parts))
	var ending sync.WaitGroup
	for i, p := range parts {
		ending.Go(func() { all[i] = p.end() })
	}
	ending.Wait()
	return errors.Join(all...)
}
