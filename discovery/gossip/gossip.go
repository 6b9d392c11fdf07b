package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// KeySize is the length of one key in bytes.
const KeySize = 32

// Config is what a member needs.
type Config struct {
	Node string // name of the server
	Boot string // id of its process
	Colo string // whose servers gossip with each other

	// Listen is the host:port to bind, for UDP and TCP alike; port 0 takes a free one.
	Listen string
	// Advertise is the host at which siblings reach this server, used if Listen is bound to all addresses. A name is resolved once.
	Advertise string

	// Keys are of [KeySize] bytes each. The first encrypts and all decrypt. At least one is required. [Gossip.ReplaceKeys] replaces them.
	Keys [][]byte

	// Siblings returns the registered servers of the colo; this process may be among them. It is called every second and must not block.
	Siblings func() []Sibling
	// Changed is called after a process was found alive or dead, never concurrently. It may be nil.
	Changed func()

	Logger *slog.Logger
}

// Sibling is a registered server of the colo.
type Sibling struct {
	Node, Boot string
	Address    string // host:port of its gossip; empty = it has none
}

// Gossip is one member. All methods are safe for concurrent use. A nil Gossip takes no part, and knows nothing.
type Gossip struct {
	config    Config
	address   string
	transport memberlist.NodeAwareTransport
	members   *members
	keyring   *memberlist.Keyring
	timings   timings
}

// New binds the addresses of a member. [Gossip.Run] or [Gossip.Close] must follow.
func New(c Config) (*Gossip, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	t, err := listen(c.Listen, c.Logger)
	if err != nil {
		return nil, err
	}
	return newGossip(c, t, t.bound()), nil
}

func newGossip(c Config, t memberlist.NodeAwareTransport, bound netip.AddrPort) *Gossip {
	g := &Gossip{config: c, keyring: newKeyring(c.Keys), transport: t, members: newMembers(process{c.Node, c.Boot}), timings: defaultTimings()}
	host := bound.Addr().Unmap().String()
	if bound.Addr().IsUnspecified() {
		host = c.Advertise
	}
	if ip := net.ParseIP(host); host != "" && !ip.IsUnspecified() {
		g.address = net.JoinHostPort(host, fmt.Sprint(bound.Port()))
	}
	return g
}

// check refuses what the library would refuse later, or would panic at.
func (c *Config) check() error {
	if err := checkKeys(c.Keys); err != nil {
		return err
	}
	if _, ok := parseName((process{c.Node, c.Boot}).name()); !ok {
		return fmt.Errorf("node %q and boot %q cannot be the name of a member", c.Node, c.Boot)
	}
	if c.Colo == "" || len(c.Colo) > memberlist.LabelMaxSize {
		return fmt.Errorf("colo %q: its name must have 1 to %d characters", c.Colo, memberlist.LabelMaxSize)
	}
	return nil
}

// Address returns the host:port to register for siblings. It is empty if no address is known at which they reach this server, which
// then does not take part.
func (g *Gossip) Address() string {
	if g == nil {
		return ""
	}
	return g.address
}

// Close closes the addresses of a member that is not run, or has ended.
func (g *Gossip) Close() {
	if g != nil {
		_ = g.transport.Shutdown() // an error is not of interest any more
	}
}

// Alive returns what is known about a process of a sibling. A dead process is known for ten minutes. A process that never
// took part, or whose packets do not reach this one, is not known.
func (g *Gossip) Alive(node, boot string) (alive, known bool) {
	if g == nil {
		return false, false
	}
	return g.members.alive(process{node, boot})
}

// Members returns what is known about processes of siblings, sorted by node; of one node, the living
// process comes first, then those that died last.
func (g *Gossip) Members() []Member {
	if g == nil {
		return nil
	}
	return g.members.list()
}

// Run takes part until ctx is done, and then leaves: siblings then report this process dead at once. It closes the addresses. Goroutines
// of the library that wait for an answer end up to a second later; they call and log nothing more.
func (g *Gossip) Run(ctx context.Context) error {
	if g == nil {
		return nil
	}
	defer g.Close()
	log := newLibraryLog(g.config.Logger)
	defer log.close()
	defer g.members.close()
	self, ok := g.resolveSelf(ctx)
	if !ok || !g.awaitSibling(ctx) {
		return nil
	}
	list, err := memberlist.Create(g.libraryConfig(self, log))
	if err != nil {
		return fmt.Errorf("cannot start gossip: %w", err)
	}
	var loops sync.WaitGroup
	loops.Go(func() { g.notify(ctx) })
	loops.Go(func() { newRejoin(g, list).run(ctx) })
	loops.Wait()
	if err := list.Leave(g.timings.leave); err != nil {
		g.config.Logger.Debug("gossip was not left properly; siblings will notice", "error", err)
	}
	if err := list.Shutdown(); err != nil {
		return fmt.Errorf("cannot end gossip: %w", err)
	}
	return nil
}

// notify reports changes, outside of the library's locks.
func (g *Gossip) notify(ctx context.Context) {
	for {
		select {
		case <-g.members.changed:
			if g.config.Changed != nil {
				g.config.Changed()
			}
		case <-ctx.Done():
			return
		}
	}
}

// awaitSibling waits until another server with an address is registered, so that a server alone in its colo sends nothing and probes
// nothing. It reports false if ctx is done first.
func (g *Gossip) awaitSibling(ctx context.Context) bool {
	poll := time.NewTicker(g.timings.poll)
	defer poll.Stop()
	isSibling := func(s Sibling) bool { return s.Address != "" && s.Node != g.config.Node }
	for !slices.ContainsFunc(g.config.Siblings(), isSibling) {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// resolveSelf returns the address that this member tells others, which the library wants as an IP address. It tries until ctx is done.
func (g *Gossip) resolveSelf(ctx context.Context) (netip.AddrPort, bool) {
	if g.address == "" {
		g.config.Logger.Warn("taking no part in gossip: the address at which other nodes reach this one is not known (-advertise-address)")
		<-ctx.Done()
		return netip.AddrPort{}, false
	}
	for logged := false; ; logged = true {
		addresses, err := resolve(ctx, g.address, g.timings.dial)
		if err == nil {
			return addresses[0], true
		}
		if !logged {
			g.config.Logger.Warn("cannot take part in gossip yet: the own address cannot be resolved", "address", g.address, "error", err)
		}
		select {
		case <-time.After(g.timings.rejoin):
		case <-ctx.Done():
			return netip.AddrPort{}, false
		}
	}
}

// resolve returns the addresses of a host:port, at least one. The library would query name servers by itself, without a bound.
func resolve(ctx context.Context, address string, timeout time.Duration) ([]netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return []netip.AddrPort{a}, nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", strings.Trim(host, "[]"))
	if err != nil {
		return nil, err
	}
	var all []netip.AddrPort
	for _, ip := range ips {
		all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(number)))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	return all, nil
}
