package node

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"colonnade/admin"
	"colonnade/colo"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/forwarding"
)

// ColoConfig is what a colo server needs.
type ColoConfig struct {
	Config
	Colo string
}

// RunColo runs a colo server until ctx ends, and then drains it. started is called once it serves.
func RunColo(ctx context.Context, c ColoConfig, started func(Running)) error {
	if err := c.check("servers/" + c.Colo + "/" + c.Node); err != nil {
		return err
	}
	p, err := assemble(c.Config, []string{
		"defaults", "models/", "pools/", "colos/", "endpoints/" + c.Colo + "/", "servers/" + c.Colo + "/",
	})
	defer p.dismantle()
	if err != nil {
		return err
	}
	peers, err := p.peerTLS(forwarding.Identity{Role: forwarding.RoleColo, Colo: c.Colo, Node: c.Node})
	if err != nil {
		return err
	}
	server, err := colo.New(colo.Config{
		Colo: c.Colo, Node: c.Node, Keys: c.Keys, Log: p.log, Metrics: p.metrics, Logger: c.Logger, WriteStall: c.Stall, Peers: peers,
	})
	if err != nil {
		return err
	}
	b := newBackground(ctx)
	defer b.stop()
	b.Go(func() error { return p.watcher.Run(b.context) })
	b.Go(func() error { return server.Run(b.context) })
	var serving atomic.Bool
	p.serveAdmin(b, p.coloPages(server, &serving))
	if err := p.ready(b.asked, func() {}); err != nil {
		b.stop()
		return errors.Join(b.Wait(), server.Shutdown(b.context, forwarding.Pace{}))
	}
	server.Apply(p.watcher.Table())
	b.Go(func() error { return apply(b.context, p.watcher, server) })
	// The right to grant comes first: requests that arrive until then wait in the listener's backlog.
	self := p.selfDescription()
	lease, err := p.claim(b.asked, c.Colo, self, server.GrantUntil)
	if lease != nil {
		b.Go(func() error { return lease.Run(b.context) })
		b.Go(func() error { return server.Serve(p.requests) })
		serving.Store(true)
		started(p.running())
		<-b.asked.Done()
	}
	last, cancel := b.last(c.Drain)
	defer cancel()
	if lease != nil && !b.taken() {
		c.Logger.Info("draining", "node", c.Node, "for_at_most", c.Drain)
		self.State = fleet.StateDraining
		p.sayDraining(b, lease, document(self)) // entries plan without this server from here on
	}
	err = errors.Join(err, server.Shutdown(last, forwarding.NewPace(c.Drain, coloNotice)))
	b.stop() // leaves etcd
	err = errors.Join(err, b.Wait())
	c.Logger.Info("ended", "node", c.Node)
	return err
}

// selfDescription is what the server tells others of itself.
func (p *parts) selfDescription() fleet.Server {
	return fleet.Server{
		Address: p.address(), Admin: p.admin.Addr().String(), Boot: boot(), State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol}, Version: Version(),
	}
}

// claim registers the server as the only one of its colo. While etcd is away, a server whose saved table knows no other
// one serves at once and registers later; else it waits, since the other one may be serving.
//
// grant is told until when permits may be granted.
func (p *parts) claim(ctx context.Context, colo string, self fleet.Server, grant func(until time.Time)) (*etcd.Lease, error) {
	alone := func() bool {
		return !slices.ContainsFunc(p.watcher.Table().Servers(colo),
			func(s *fleet.Server) bool { return s.Node != p.config.Node })
	}
	r := etcd.Registration{
		Client: p.client, Prefix: Prefix, Key: "servers/" + colo + "/" + p.config.Node, Value: document(self), TTL: leaseTTL,
		Alone: true, Logger: p.config.Logger, Saved: leaseFile(p.config),
		Tenure: etcd.Tenure{Until: grant, Vacant: alone},
	}
	for {
		lease, err := etcd.Register(ctx, r)
		var taken *etcd.TakenError
		switch {
		case err == nil:
			lingerAfterCrash(ctx, lease)
			return lease, nil
		case errors.As(err, &taken):
			return nil, err
		case ctx.Err() != nil:
			return nil, nil //nolint:nilnil // asked to end before it began
		case alone():
			p.config.Logger.Warn("serving without etcd, from the last good documents", "reason", err)
			lease := etcd.NewLease(r)
			lingerAfterCrash(ctx, lease)
			lease.Presume()
			return lease, nil
		}
		p.config.Logger.Warn("waiting for etcd: another server of this colo may be serving", "reason", err)
	}
}

// lingerAfterCrash waits until engines have noticed that an earlier run of this server is dead: what it had sent them
// would otherwise count on top of what this one sends.
func lingerAfterCrash(ctx context.Context, lease *etcd.Lease) {
	if lease.AfterCrash() {
		pause(ctx, colo.Linger)
	}
}

// apply brings the server in line with every new table, and says which endpoints without a lease have died.
func apply(ctx context.Context, w *etcd.Watcher, server *colo.Server) error {
	look := time.NewTicker(lookForDeparted)
	defer look.Stop()
	changed := w.Changed()
	server.Apply(w.Table())
	for {
		select {
		case <-changed:
			changed = w.Changed()
			server.Apply(w.Table())
		case <-look.C:
			w.Forget(server.Departed()...)
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *parts) coloPages(server *colo.Server, serving *atomic.Bool) admin.Config {
	return admin.Config{
		Ready: func() error {
			switch {
			case server.Draining():
				return errors.New("draining")
			case p.starting():
				return errors.New("starting: there are no documents yet, since etcd has not answered")
			case !serving.Load():
				return errors.New("not serving yet: it is not certain that no other server of the colo grants")
			case !server.MayGrant():
				return errors.New("granting nothing: whether this server still has its place in etcd is not known")
			}
			return nil
		},
		Pools: func(accounts int) any { return server.PoolStates(accounts) },
		Check: server.Check,
	}
}
