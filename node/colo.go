package node

import (
	"context"
	"errors"
	"fmt"

	"colonnade/admin"
	"colonnade/colo"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
)

// ColoConfig is what a colo server needs.
type ColoConfig struct {
	Config
	Colo string
}

// RunColo runs a colo server until ctx ends, and then drains it. started is called once it serves.
func RunColo(ctx context.Context, c ColoConfig, started func(Running)) error {
	p, err := assemble(c.Config, []string{
		"defaults", "models/", "pools/", "colos/", "endpoints/" + c.Colo + "/", "servers/" + c.Colo + "/",
	})
	defer p.dismantle()
	if err != nil {
		return err
	}
	server, err := colo.New(colo.Config{
		Colo: c.Colo, Node: c.Node, Keys: c.Keys, Table: p.watcher.Table, Log: p.log, Metrics: p.metrics, Logger: c.Logger, WriteStall: c.Stall,
	})
	if err != nil {
		return err
	}
	b := newBackground(ctx)
	defer b.stop()
	b.Go(func() error { return p.watcher.Run(b.context) })
	b.Go(func() error { return server.Run(b.context) })
	b.Go(func() error { return p.serveAdmin(b.context, p.coloPages(server)) })
	b.Go(func() error { return apply(b.context, p.watcher, server) })
	if err := p.ready(ctx); err != nil {
		b.stop()
		return errors.Join(b.Wait(), server.Shutdown(b.context))
	}
	server.Apply(p.watcher.Table())
	b.Go(func() error { return server.Serve(p.peer) })

	self := fleet.Server{
		Address: p.address(), Admin: p.admin.Addr().String(), Boot: boot(), State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.Protocol, Max: fleet.Protocol}, Version: version(),
	}
	registration, err := etcd.Register(ctx, etcd.Registration{
		Client: p.client, Prefix: Prefix, Key: "servers/" + c.Colo + "/" + c.Node, Value: document(self), TTL: leaseTTL,
		Alone: true, Logger: c.Logger,
	})
	if err == nil {
		b.Go(func() error { return registration.Run(b.context) })
		started(p.running())
		b.until(ctx)
		c.Logger.Info("draining", "node", c.Node, "for_at_most", c.Drain)
		self.State = fleet.StateDraining
		if err := registration.Update(b.context, document(self)); err != nil {
			c.Logger.Warn("cannot say in etcd that this server drains", "reason", err)
		}
	} else if ctx.Err() == nil {
		err = fmt.Errorf("cannot register: %w", err)
	} else {
		err = nil
	}
	last, cancel := context.WithTimeout(b.context, c.Drain)
	defer cancel()
	err = errors.Join(err, server.Shutdown(last))
	b.stop()
	return errors.Join(err, b.Wait())
}

// apply brings the server in line with every new table.
func apply(ctx context.Context, w *etcd.Watcher, server *colo.Server) error {
	for {
		changed := w.Changed()
		server.Apply(w.Table())
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (p *parts) coloPages(server *colo.Server) admin.Config {
	return admin.Config{
		Ready: func() error {
			if server.Draining() {
				return errors.New("draining")
			}
			return nil
		},
		Pools: func() any { return server.Pools() },
		Check: server.Check,
	}
}
