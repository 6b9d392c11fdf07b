package keeper

import (
	"context"
	"maps"
	"slices"
	"time"

	"colonnade/fleet"
	"colonnade/homes"
)

// runExpired asks the servers whose leases have expired, and removes the dead ones from the table. A server that answers stays: it may be cut
// off from the store alone, and then this server must not take itself for the only one of the colo when the store is away for both.
func (k *Keeper) runExpired(ctx context.Context) {
	tick := time.NewTicker(siblingInterval)
	defer tick.Stop()
	heard := map[homes.Process]time.Time{} // when each expired server was missed, or last heard
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		expired := k.expiredServers()
		results := k.ask(ctx, targetsOf(expired), func(Target) string { return "" })
		if ctx.Err() == nil {
			k.config.MarkDead(deadOf(expired, results, heard)...)
		}
	}
}

// expiredServers returns the other servers of the colo that are in the table although their leases have expired.
func (k *Keeper) expiredServers() []*fleet.Server {
	t := k.placed.Load().table
	registered := t.Registered(k.config.Colo)
	var expired []*fleet.Server
	for _, s := range t.Servers(k.config.Colo) {
		if s.Node != k.config.Self.Node && !slices.Contains(registered, s) {
			expired = append(expired, s)
		}
	}
	return expired
}

// deadOf returns the keys of the servers that are dead by the results of the last questions: those whose address refuses connections, those
// that another process of their node has replaced, and those that have been silent for [homes.SilentHold]. It keeps heard up to date.
func deadOf(servers []*fleet.Server, results []result, heard map[homes.Process]time.Time) (keys []string) {
	processes := map[homes.Process]bool{}
	for i, s := range servers {
		p, r := homes.Process{Node: s.Node, Boot: s.Boot}, results[i]
		processes[p] = true
		if last, known := heard[p]; !known || r.heard || r.asked.Sub(last) > homes.SilentHold+2*siblingInterval {
			heard[p] = r.asked // also after this process itself stood still
		}
		if r.refused || slices.Contains(r.answer.Ended, s.Boot) || r.asked.Sub(heard[p]) >= homes.SilentHold {
			keys = append(keys, fleet.KindServer.Key(s.Colo, s.Node))
		}
	}
	maps.DeleteFunc(heard, func(p homes.Process, _ time.Time) bool { return !processes[p] })
	return keys
}
