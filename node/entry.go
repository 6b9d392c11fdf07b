package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"colonnade/admin"
	"colonnade/discovery/etcd"
	"colonnade/entry"
	"colonnade/fleet"
	"colonnade/forwarding"
)

// EntryConfig is what an entry needs.
type EntryConfig struct {
	Config
	Region string
	Open   bool                        // requests without a valid key are served
	TLS    forwarding.CertificateFiles // for clients; none = plain HTTP

	PerAddress int // the most connections of one address, or one IPv6 network; 0 = any number
}

// RunEntry runs an entry until ctx ends, and then drains it. started is called once it serves.
func RunEntry(ctx context.Context, c EntryConfig, started func(Running)) error {
	if err := c.check("entries/" + c.Node); err != nil {
		return err
	}
	p, err := assemble(c.Config, []string{"defaults", "models/", "colos/", "accounts/", "servers/"})
	defer p.dismantle()
	if err != nil {
		return err
	}
	public, err := p.publicTLS(c.TLS)
	if err != nil {
		return err
	}
	peers, err := p.peerTLS(forwarding.Identity{Role: forwarding.RoleEntry, Node: c.Node})
	if err != nil {
		return err
	}
	e, err := entry.New(entry.Config{
		Node: c.Node, Open: c.Open, Keys: c.Keys, Table: p.watcher.Table, Starting: p.starting, Log: p.log, Metrics: p.metrics,
		Logger: c.Logger, WriteStall: c.Stall, TLS: public, Peers: peers,
		PerAddress: c.PerAddress,
	})
	if err != nil {
		return err
	}
	p.unreached = e.Unreached
	b := newBackground(ctx)
	defer b.stop()
	b.Go(func() error { return p.watcher.Run(b.context) })
	b.Go(func() error { return e.Run(b.context) })
	p.serveAdmin(b, admin.Config{Ready: e.Ready, Check: e.Check})
	serve := sync.OnceFunc(func() { b.Go(func() error { return e.Serve(p.requests) }) })
	if err := p.ready(b.asked, serve); err != nil { // who comes before it is told to wait, unless that is short
		b.stop()
		err = e.Shutdown(b.context, forwarding.Pace{})
		return errors.Join(b.Wait(), err)
	}
	serve()
	self := p.describeEntry(c.Region)
	lease := p.entryLease(self)
	b.Go(func() error { return keepRegistered(b.context, lease, c.Logger) })
	started(p.running())
	<-b.asked.Done()

	c.Logger.Info("draining", "node", c.Node, "for_at_most", c.Drain)
	last, cancel := b.last(c.Drain)
	defer cancel()
	e.Drain() // balancers ask here and not in etcd
	self.State = fleet.StateDraining
	p.sayDraining(b, lease, document(self))
	err = e.Shutdown(last, forwarding.NewPace(c.Drain, entryNotice))
	b.stop() // leaves etcd
	err = errors.Join(err, b.Wait())
	c.Logger.Info("ended", "node", c.Node)
	return err
}

// describeEntry is what the entry tells others of itself.
func (p *parts) describeEntry(region string) fleet.EntryNode {
	return fleet.EntryNode{
		Address: p.address(), Admin: p.admin.Addr().String(), Region: region, State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol}, Version: Version(),
	}
}

func (p *parts) entryLease(self fleet.EntryNode) *etcd.Lease {
	return etcd.NewLease(etcd.Registration{
		Client: p.client, Prefix: Prefix, Key: "entries/" + p.config.Node, Value: document(self), TTL: leaseTTL,
		Logger: p.config.Logger, Saved: leaseFile(p.config),
	})
}

// keepRegistered makes the entry known, now or when etcd is there. Nothing depends on it, so it serves without as well.
func keepRegistered(ctx context.Context, lease *etcd.Lease, logger *slog.Logger) error {
	for told := false; ; told = true {
		err := lease.Run(ctx)
		if err == nil {
			return nil // the end
		}
		if !told {
			logger.Warn("serving without being registered; trying on", "every", registerAgain, "reason", err)
		}
		pause(ctx, registerAgain)
	}
}
