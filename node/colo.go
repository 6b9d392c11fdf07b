package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"colonnade/admin"
	"colonnade/change"
	"colonnade/colo"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/homes"
	"colonnade/internal/ctxtime"
)

// ColoConfig is what a colo server needs.
type ColoConfig struct {
	Config
	Colo   string
	Gossip string // host:port of gossip with the other servers of the colo, UDP and TCP; empty = none
}

// RunColo runs a colo server until ctx is done, and then drains it. It calls serving once the server serves.
func RunColo(ctx context.Context, c ColoConfig, serving func(Running)) error {
	if err := c.checkSettings(); err != nil {
		return err
	}
	r, err := openRuntime(c.Config, "colonnade-colo", fleet.KindServer.Key(c.Colo, c.Node), []string{
		"defaults", "models/", "pools/", "colos/", "sinks/", "endpoints/" + c.Colo + "/", "servers/" + c.Colo + "/", "workers/",
	})
	defer r.close()
	if err != nil {
		return err
	}
	srv, err := r.newColoServer(&c)
	if err != nil {
		return err
	}
	s := r.siblings
	defer s.gossip.Close()
	t := newTasks(ctx)
	defer t.end()
	r.startColo(t, &c, srv)
	var isServing atomic.Bool
	r.serveAdmin(t, r.coloPages(srv, &isServing))
	if err := r.awaitTable(t.stopping, func() {}); err != nil {
		t.end()
		return errors.Join(t.Wait(), srv.Shutdown(t.ctx, server.DrainTimings{}))
	}
	r.applyTable(srv)
	t.Go(func() error { return r.applyTables(t.ctx, srv) })
	t.Go(func() error { return r.shared.run(t.ctx, c.Colo, r.watcher) })
	t.Go(func() error { return r.incidents(c.Colo).Run(t.ctx) })
	s.start(t)

	// The server registers before it serves: requests that arrive until then wait in the listener's backlog.
	self := r.newServerDocument(srv.Boot(), s.gossip.Address())
	lease, err := r.register(t.stopping, c.Colo, self.encode(), srv.SetFence)
	if lease != nil {
		self.lease = lease
		r.serveColo(t, srv, self, &isServing)
		running := r.running()
		running.Do, running.Boot = srv.Do, srv.Boot()
		serving(running)
		<-t.stopping.Done()
		r.maintenance.end()
	}

	drain, cancel := t.drainContext(c.Drain)
	defer cancel()
	if lease != nil && t.superseded.Err() == nil {
		c.Logger.Info("draining", "node", c.Node, "for_at_most", c.Drain)
		r.announceDrain(t, self.drain) // entries plan without this server from here on, and its siblings take over its pools
		s.keeper.AwaitHandover(drain, announceTimeout)
	}
	err = errors.Join(err, srv.Shutdown(drain, server.NewDrainTimings(c.Drain, coloNotice)))
	t.end() // deregisters
	err = errors.Join(err, t.Wait())
	c.Logger.Info("stopped", "node", c.Node)
	return err
}

// startColo starts what runs from the beginning to the end of the process.
func (r *runtime) startColo(t tasks, c *ColoConfig, srv *colo.Server) {
	t.Go(func() error { return r.behalf.run(t.ctx) })
	t.Go(func() error { return r.watcher.Run(t.ctx) })
	t.Go(func() error { return r.sinks.run(t.ctx) })
	t.Go(func() error { return srv.Run(t.ctx) })
	t.Go(func() error { return r.keys.run(t.ctx, func() { r.replaceGossipKeys(c) }) })
}

// newColoServer makes the server and its siblings.
func (r *runtime) newColoServer(c *ColoConfig) (*colo.Server, error) {
	r.behalf = &behalf{
		client: r.client, colo: c.Colo, node: c.Node, logger: c.Logger, all: map[string]*represented{},
		table: r.watcher.Table, markRevoked: r.watcher.MarkRevoked,
	}
	if err := r.openAPI(&change.Documents{Client: r.client}, "", r.behalf.registrar()); err != nil {
		return nil, err
	}
	peers, err := r.peerTLS(peertls.Identity{Role: peertls.RoleColo, Colo: c.Colo, Node: c.Node})
	if err != nil {
		return nil, err
	}
	settings := r.coloSettings(c)
	settings.Metrics, settings.Peers, settings.Via, settings.Liveness, settings.MaxConns = r.metrics, peers, c.Via, c.Liveness, c.maxConns()
	settings.NoLinks = c.NoLinks
	settings.Homes = func(pool string) colo.Home { return r.siblings.home(pool) }
	settings.Owned = func(asker homes.Process, about string) homes.Answer { return r.siblings.keeper.Answer(asker, about) }
	srv, err := colo.New(settings)
	if err != nil {
		return nil, err
	}
	if err := r.openSiblings(c, srv); err != nil {
		return nil, errors.Join(err, srv.Shutdown(context.Background(), server.DrainTimings{}))
	}
	r.colo = srv
	r.unseen = []fleet.Kind{fleet.KindColo, fleet.KindServer, fleet.KindEndpoint, fleet.KindAccount, fleet.KindAPIKey, fleet.KindFlow, fleet.KindCapture}
	return srv, nil
}

// coloSettings returns the settings of a colo server, but its metrics and all that it has because of other nodes.
func (r *runtime) coloSettings(c *ColoConfig) colo.Config {
	return colo.Config{
		Colo: c.Colo, Node: c.Node, Keys: c.Keys, Log: r.log, Logger: c.Logger, WriteStall: c.WriteStall,
		Tracer: r.tracer, CredentialsDir: c.CredentialsDir, OwnFiles: c.ownFiles(), BodyMemory: c.BodyMemory, MaxAccounts: c.MetricsAccounts,
	}
}

// serveColo keeps the registration, and begins to serve.
func (r *runtime) serveColo(t tasks, srv *colo.Server, self *serverDocument, serving *atomic.Bool) {
	s := r.siblings
	s.lease.Store(self.lease)
	t.Go(func() error { return self.lease.Run(t.ctx) })
	t.Go(func() error { return r.publishPools(t.ctx, srv, self) })
	s.keeper.AwaitOwned(t.stopping, ownWait)
	t.Go(func() error { return srv.Serve(r.requests) })
	serving.Store(true)
	r.maintenance.begin(r.drainableServer(t.stopping, self))
}

// register registers the server. While etcd is away, a server whose saved table knows no other server of the colo serves at once and
// registers later; otherwise it waits, since another server may be granting.
//
// The lease calls grantUntil with the time until which permits may be granted. register returns nil without an error if ctx is done first.
func (r *runtime) register(ctx context.Context, colo string, self []byte, grantUntil func(time.Time)) (*etcd.Lease, error) {
	k := r.siblings.keeper
	registration := etcd.Registration{
		Client: r.client, Prefix: Prefix, Key: "servers/" + colo + "/" + r.config.Node, Value: self, TTL: leaseTTL,
		Logger: r.config.Logger, SavedLease: r.config.file("lease"), Records: r.siblings.records,
		Fence: etcd.Fence{SetDeadline: grantUntil, Alone: k.Alone, Vouched: k.Vouched},
	}
	for {
		lease, err := etcd.Register(ctx, registration)
		var taken *etcd.TakenError
		switch {
		case err == nil:
			r.lingerAfterCrash(ctx, lease.AfterCrash())
			return lease, nil
		case errors.As(err, &taken):
			return nil, err
		case ctx.Err() != nil:
			return nil, nil //nolint:nilnil // asked to stop before it served
		case k.Alone():
			r.config.Logger.Warn("serving without etcd, from the last good documents", "error", err)
			lease := etcd.NewLease(registration)
			r.lingerAfterCrash(ctx, lease.AfterCrash())
			k.Assume()
			lease.Assume()
			return lease, nil
		}
		r.config.Logger.Warn("waiting for etcd: other servers of this colo may be granting", "error", err)
	}
}

// lingerAfterCrash waits, if an earlier process of this node has crashed, until engines have noticed its end: its requests would otherwise run
// beside those of this one.
func (r *runtime) lingerAfterCrash(ctx context.Context, crashed bool) {
	if crashed {
		r.config.Logger.Info("waiting until engines have noticed the end of the earlier process", "for", colo.Linger)
		ctxtime.Sleep(ctx, colo.Linger)
	}
}

// applyTables applies each new table to the server, and reports dead endpoints to the watcher: it removes those with an
// expired lease from the table.
func (r *runtime) applyTables(ctx context.Context, server *colo.Server) error {
	w := r.watcher
	probe := time.NewTicker(deadInterval)
	defer probe.Stop()
	changed := w.Changed()
	r.applyTable(server)
	for {
		select {
		case <-changed:
			changed = w.Changed()
			r.applyTable(server)
		case <-probe.C:
			w.MarkDead(server.DeadEndpoints()...)
		case <-ctx.Done():
			return nil
		}
	}
}

// applyTable applies the newest table.
func (r *runtime) applyTable(server *colo.Server) {
	t := r.watcher.Table()
	server.Apply(t)
	before := r.siblings.keeper.OldServer()
	r.siblings.keeper.Apply(t)
	if old := r.siblings.keeper.OldServer(); old != nil && (before == nil || before.Boot != old.Boot) {
		r.config.Logger.Warn("granting nothing beside a server of an older version, which cannot share its colo: stop that server", "server", old.Node, "version", old.Version)
	}
}

func (r *runtime) coloPages(server *colo.Server, serving *atomic.Bool) admin.Config {
	return admin.Config{
		Ready: func() error {
			switch {
			case server.Draining(), r.maintenance.draining() != nil:
				return errors.New("draining")
			case r.starting():
				return errors.New("starting: no documents yet, since etcd has not answered")
			case !serving.Load():
				return errors.New("not serving yet: it is not registered, and other servers of the colo may be granting")
			case !server.GrantsEnabled():
				return errors.New("granting nothing: etcd has not confirmed that this server still holds its key")
			case r.siblings.keeper.OldServer() != nil:
				return fmt.Errorf("granting nothing: server %s of this colo has an older version, which cannot share its colo; stop it",
					r.siblings.keeper.OldServer().Node)
			}
			return nil
		},
		Pools: func(accounts int) any { return r.siblings.poolStates(server.PoolStates(accounts)) },
		Check: func() []error { return append(server.Check(), r.siblings.keeper.Check(context.Background())...) },
	}
}
