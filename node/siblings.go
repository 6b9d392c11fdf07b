package node

import (
	"context"
	"sync/atomic"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/colo"
	"colonnade/discovery/etcd"
	"colonnade/discovery/gossip"
	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/homes"
	"colonnade/homes/keeper"
)

// ownWait is the longest time for which a server that has registered waits for its engines before it serves, so that requests that must not
// wait get a permit.
const ownWait = 2 * time.Second

// siblings has the parts of a colo server that let it share its colo with other servers.
type siblings struct {
	colo    string
	self    homes.Process
	keeper  *keeper.Keeper
	records *etcd.Records
	gossip  *gossip.Gossip // nil = the server does not gossip
	lease   atomic.Pointer[etcd.Lease]
}

// openSiblings sets r.siblings. The server grants nothing until they are started and it is registered.
func (r *runtime) openSiblings(c *ColoConfig, srv *colo.Server) error {
	ended := r.config.rememberBoot(srv.Boot())
	s := &siblings{colo: c.Colo, self: homes.Process{Node: c.Node, Boot: srv.Boot()}}
	var err error
	if s.gossip, err = r.openGossip(c, srv.Boot()); err != nil {
		return err
	}
	r.siblings = s
	s.records = etcd.NewRecords(etcd.RecordsConfig{
		Client: r.client, Prefix: Prefix, Colo: c.Colo, Self: s.self, Address: r.advertiseAddress, Logger: r.config.Logger,
		Held:         func() map[string]int { return s.keeper.StopGrants() },
		Observe:      func(c homes.Change) { s.keeper.Observe(c) },
		OnRestored:   func() { s.keeper.Restored() },
		Seen:         etcd.SavedRevision(c.file("table")),
		OnRegistered: func(revision int64) { srv.RenewFence(); s.keeper.Registered(revision) },
	})
	s.keeper = keeper.New(keeper.Config{
		Self: s.self, Colo: c.Colo, Ended: ended, TTL: leaseTTL, Logger: r.config.Logger,
		SetGrants: srv.SetGrants, MayGrant: srv.GrantsEnabled, Drains: srv.Draining, Held: srv.Held, Limits: srv.Limits,
		StandIns: srv.StandIns, Return: srv.RefuseStandIns, Confirmed: s.confirmedAt, MarkDead: r.watcher.MarkDead,
		Put: s.records.Put, Replace: s.records.Replace, Forget: s.records.Forget,
		Ask: func(ctx context.Context, to keeper.Target, about string) (homes.Answer, error) {
			return srv.Ask(ctx, peer.Server{Colo: c.Colo, Node: to.Node, Address: to.Address, Boot: to.Boot, Protocol: to.Protocol},
				peer.Question{About: about, From: s.self.Boot})
		},
		Refused: peer.IsRefused,
	})
	metrics.RegisterHomes(r.metrics, func() metrics.HomesState { return metrics.HomesState(s.keeper.Stats()) })
	return nil
}

// start begins to follow the records, to keep the own one, and to gossip.
func (s *siblings) start(t tasks) {
	t.Go(func() error { return s.records.Run(t.ctx) })
	t.Go(func() error { return s.keeper.Run(t.ctx) })
	t.Go(func() error { return s.gossip.Run(t.ctx) })
}

// confirmedAt returns when etcd last confirmed the registration.
func (s *siblings) confirmedAt() time.Time {
	if lease := s.lease.Load(); lease != nil {
		return lease.ConfirmedAt()
	}
	return time.Time{}
}

// home returns the home of a pool, for requests.
func (s *siblings) home(pool string) colo.Home {
	h := s.keeper.Home(pool)
	out := colo.Home{Node: h.Node, Address: h.Address, Boot: h.Boot, Protocol: h.Protocol, Here: h.Here, Revision: h.Revision, Known: h.Known}
	if !h.Here {
		alive, known := s.gossip.Alive(h.Node, h.Boot)
		out.Dead = known && !alive
	}
	return out
}

// poolStates adds to the state of each pool its home, and the ownership of its engines.
func (s *siblings) poolStates(states []colo.PoolState) []colo.PoolState {
	for i := range states {
		state := &states[i]
		home := s.keeper.Home(state.Pool)
		state.Home, state.Here, state.Ownership = home.Node, home.Here, s.keeper.Engines(state.Pool)
	}
	return states
}

// publishPools keeps the server's document up to date with the slots of the pools whose home it is. Entries read them, and send no
// request to a colo without the pool, so pools without an engine here are left out.
func (r *runtime) publishPools(ctx context.Context, srv *colo.Server, self *serverDocument) error {
	tick := time.NewTicker(poolsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		t := r.watcher.Table()
		slots, known := srv.Slots(func(pool string) bool {
			return len(t.Endpoints(r.siblings.colo, pool)) > 0 && r.siblings.keeper.Home(pool).Here
		})
		if !known {
			continue
		}
		// If etcd does not answer, it gets the document with a later renewal.
		_ = self.change(ctx, func(d *fleet.Server) { d.Pools = fleet.RegisteredPools(slots) })
	}
}
