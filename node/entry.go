package node

import (
	"context"
	"errors"
	"log/slog"

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
	Open   bool // requests without a valid key are served
}

// RunEntry runs an entry until ctx ends, and then drains it. started is called once it serves.
func RunEntry(ctx context.Context, c EntryConfig, started func(Running)) error {
	p, err := assemble(c.Config, []string{"defaults", "models/", "colos/", "accounts/", "servers/"})
	defer p.dismantle()
	if err != nil {
		return err
	}
	e, err := entry.New(entry.Config{
		Node: c.Node, Open: c.Open, Keys: c.Keys, Table: p.watcher.Table, Log: p.log, Metrics: p.metrics,
		Logger: c.Logger, WriteStall: c.Stall,
	})
	if err != nil {
		return err
	}
	b := newBackground(ctx)
	defer b.stop()
	b.Go(func() error { return p.watcher.Run(b.context) })
	b.Go(func() error { return e.Run(b.context) })
	p.serveAdmin(b, admin.Config{Ready: e.Ready, Check: e.Check})
	if err := p.ready(b.asked); err != nil {
		b.stop()
		return errors.Join(b.Wait(), e.Shutdown(b.context, forwarding.Pace{}))
	}
	b.Go(func() error { return e.Serve(p.peer) })
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
	return errors.Join(err, b.Wait())
}

// describeEntry is what the entry tells others of itself.
func (p *parts) describeEntry(region string) fleet.EntryNode {
	return fleet.EntryNode{
		Address: p.address(), Admin: p.admin.Addr().String(), Region: region, State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol}, Version: version(),
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
