package node

import (
	"fmt"
	"net"

	"colonnade/discovery/gossip"
)

// openGossip opens the address at which a colo server gossips with the others of its colo. The result is nil if the flag -gossip is
// empty: the server then takes no part.
func (r *runtime) openGossip(c *ColoConfig, boot string) (*gossip.Gossip, error) {
	if c.Gossip == "" {
		return nil, nil //nolint:nilnil // a nil Gossip is valid
	}
	host, _, err := net.SplitHostPort(r.advertiseAddress())
	if err != nil {
		return nil, fmt.Errorf("cannot determine the address for gossip: %w", err)
	}
	g, err := gossip.New(gossip.Config{
		Node: c.Node, Boot: boot, Colo: c.Colo, Listen: c.Gossip, Advertise: host, Keys: gossipKeys(c),
		Siblings: func() []gossip.Sibling { return r.gossipers(c.Colo) }, Logger: c.Logger,
		Changed: func() { r.siblings.keeper.Look() },
	})
	if err != nil {
		return nil, fmt.Errorf("cannot listen for gossip (flag -gossip; empty = no gossip): %w", err)
	}
	return g, nil
}

// gossipKeys returns the keys of a colo's gossip, derived from those of the fleet.
func gossipKeys(c *ColoConfig) [][]byte { return c.Keys.Derive("gossip " + c.Colo) }

// replaceGossipKeys follows a change of the fleet's keys.
func (r *runtime) replaceGossipKeys(c *ColoConfig) {
	if err := r.siblings.gossip.ReplaceKeys(gossipKeys(c)); err != nil {
		c.Logger.Error("gossip goes on with the keys before", "error", err)
	}
}

// gossipers returns the registered servers of a colo, with the addresses at which they gossip.
func (r *runtime) gossipers(colo string) []gossip.Sibling {
	var all []gossip.Sibling
	for _, s := range r.watcher.Table().Registered(colo) {
		all = append(all, gossip.Sibling{Node: s.Node, Boot: s.Boot, Address: s.Gossip})
	}
	return all
}
