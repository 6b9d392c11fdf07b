package node

import (
	"context"
	"errors"
	"time"

	"colonnade/admin"
	"colonnade/discovery/etcd"
	"colonnade/entry"
	"colonnade/fleet"
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
	b.Go(func() error { return p.serveAdmin(b.context, admin.Config{Ready: e.Ready, Check: e.Check}) })
	if err := p.ready(ctx); err != nil {
		b.stop()
		return errors.Join(b.Wait(), e.Shutdown(b.context))
	}
	b.Go(func() error { return e.Serve(p.peer) })
	b.Go(func() error { return p.registerEntry(b.context, c) })
	started(p.running())
	b.until(ctx)

	c.Logger.Info("draining", "node", c.Node, "for_at_most", c.Drain)
	e.Drain()
	last, cancel := context.WithTimeout(b.context, c.Drain)
	defer cancel()
	if c.Drain > 10*lameDuck {
		time.Sleep(lameDuck)
	}
	err = e.Shutdown(last)
	b.stop()
	return errors.Join(err, b.Wait())
}

// registerEntry makes the entry known. Nothing depends on it, so it serves without as well.
func (p *parts) registerEntry(ctx context.Context, c EntryConfig) error {
	registration, err := etcd.Register(ctx, etcd.Registration{
		Client: p.client, Prefix: Prefix, Key: "entries/" + c.Node, TTL: leaseTTL, Logger: c.Logger,
		Value: document(fleet.EntryNode{
			Address: p.address(), Region: c.Region, Protocol: fleet.ProtocolRange{Min: fleet.Protocol, Max: fleet.Protocol}, Version: version(),
		}),
	})
	if err != nil {
		if ctx.Err() == nil {
			c.Logger.Warn("cannot register", "reason", err)
		}
		return nil
	}
	return registration.Run(ctx)
}
