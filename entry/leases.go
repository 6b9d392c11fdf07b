package entry

import (
	"context"

	"colonnade/fleet"
	"colonnade/forwarding/liveness"
	"colonnade/forwarding/peer"
)

// watcherConfig returns how the entry watches the servers that it sends requests to, and those in its table whose lease has expired.
func (e *Entry) watcherConfig() liveness.Config {
	c := liveness.Config{Alive: e.askAlive, Registered: registrations(e.config.Table), Timings: e.config.Liveness}
	if mark := e.config.MarkDead; mark != nil {
		c.MarkDead = func(s peer.Server) { mark(fleet.KindServer.Key(s.Colo, s.Node)) }
	}
	return c
}

// registrations returns a function that returns the servers of the table in force, unless it did so for that table before. The function is
// for one goroutine.
func registrations(table func() *fleet.Table) func() (servers []liveness.Registered, changed bool) {
	var known *fleet.Table
	return func() ([]liveness.Registered, bool) {
		t := table()
		if t == known {
			return nil, false
		}
		known = t
		var servers []liveness.Registered
		for _, c := range t.Colos() {
			for _, s := range t.Servers(c.Name) {
				servers = append(servers, liveness.Registered{Server: peerOf(s), Expired: isExpired(t, s)})
			}
		}
		return servers, true
	}
}

// askAlive asks a server for a sign of life.
func (e *Entry) askAlive(ctx context.Context, s peer.Server) error {
	if e.local(&fleet.Server{Colo: s.Colo, Node: s.Node, Address: s.Address, Boot: s.Boot}) != nil {
		return nil
	}
	return e.sender.Client.Alive(ctx, s)
}
