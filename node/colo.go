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
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/internal/ctxtime"
)

// ColoConfig is what a colo server needs.
type ColoConfig struct {
	Config
	Colo           string
	Gossip         string // host:port of gossip with the other servers of the colo, UDP and TCP; empty = none
	CredentialsDir string // files with credentials of engines are read only below it; empty = none is read
}

// RunColo runs a colo server until ctx is done, and then drains it. It calls serving once the server serves.
func RunColo(ctx context.Context, c ColoConfig, serving func(Running)) error {
	if err := c.checkSettings(); err != nil {
		return err
	}
	r, err := openRuntime(c.Config, []string{
		"defaults", "models/", "pools/", "colos/", "endpoints/" + c.Colo + "/", "servers/" + c.Colo + "/",
	})
	defer r.close()
	if err != nil {
		return err
	}
	peers, err := r.peerTLS(peertls.Identity{Role: peertls.RoleColo, Colo: c.Colo, Node: c.Node})
	if err != nil {
		return err
	}
	srv, err := colo.New(colo.Config{
		Colo: c.Colo, Node: c.Node, Keys: c.Keys, Log: r.log, Metrics: r.metrics, Logger: c.Logger, WriteStall: c.WriteStall, Peers: peers,
		CredentialsDir: c.CredentialsDir, OwnFiles: c.ownFiles(), MaxConns: c.maxConns(), BodyMemory: c.BodyMemory,
	})
	if err != nil {
		return err
	}
	siblings, err := r.openGossip(&c, srv.Boot())
	if err != nil {
		return errors.Join(err, srv.Shutdown(ctx, server.DrainTimings{}))
	}
	defer siblings.Close()
	t := newTasks(ctx)
	defer t.end()
	t.Go(func() error { return r.watcher.Run(t.ctx) })
	t.Go(func() error { return srv.Run(t.ctx) })
	t.Go(func() error { return siblings.Run(t.ctx) })
	var isServing atomic.Bool
	r.serveAdmin(t, r.coloPages(srv, &isServing))
	if err := r.awaitTable(t.stopping, func() {}); err != nil {
		t.end()
		return errors.Join(t.Wait(), srv.Shutdown(t.ctx, server.DrainTimings{}))
	}
	srv.Apply(r.watcher.Table())
	t.Go(func() error { return applyTables(t.ctx, r.watcher, srv) })

	// The right to grant comes first: requests that arrive until then wait in the listener's backlog.
	self := r.serverDocument(srv.Boot())
	self.Gossip = siblings.Address()
	lease, err := r.register(t.stopping, c.Colo, self, srv.SetFence)
	if lease != nil {
		t.Go(func() error { return lease.Run(t.ctx) })
		t.Go(func() error { return srv.Serve(r.requests) })
		isServing.Store(true)
		running := r.running()
		running.Do, running.Boot = srv.Do, srv.Boot()
		serving(running)
		<-t.stopping.Done()
	}

	drain, cancel := t.drainContext(c.Drain)
	defer cancel()
	if lease != nil && t.superseded.Err() == nil {
		c.Logger.Info("draining", "node", c.Node, "for_at_most", c.Drain)
		self.State = fleet.StateDraining
		r.announceDrain(t, lease, encode(self)) // entries plan without this server from here on
	}
	err = errors.Join(err, srv.Shutdown(drain, server.NewDrainTimings(c.Drain, coloNotice)))
	t.end() // deregisters
	err = errors.Join(err, t.Wait())
	c.Logger.Info("stopped", "node", c.Node)
	return err
}

// serverDocument returns the document that the server registers.
func (r *runtime) serverDocument(boot string) fleet.Server {
	return fleet.Server{
		Address: r.advertiseAddress(), Admin: r.admin.Addr().String(), Boot: boot, State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol}, Version: Version(),
	}
}

// register registers the server as the only one of its colo. While etcd is away, a server whose saved table knows no other
// server of the colo serves at once and registers later; otherwise it waits, since the other server may be serving.
//
// The lease calls grantUntil with the time until which permits may be granted. The lease is nil, without an error, if ctx
// is done first.
func (r *runtime) register(ctx context.Context, colo string, self fleet.Server, grantUntil func(time.Time)) (*etcd.Lease, error) {
	exclusive := func() bool { return !hasRival(r.watcher.Table(), colo, r.config.Node) }
	registration := etcd.Registration{
		Client: r.client, Prefix: Prefix, Key: "servers/" + colo + "/" + r.config.Node, Value: encode(self), TTL: leaseTTL,
		Exclusive: true, Logger: r.config.Logger, SavedLease: r.config.file("lease"),
		Fence: etcd.Fence{SetDeadline: grantUntil, Alone: exclusive},
	}
	for {
		lease, err := etcd.Register(ctx, registration)
		var taken *etcd.TakenError
		switch {
		case err == nil:
			lingerAfterCrash(ctx, lease)
			return lease, nil
		case errors.As(err, &taken):
			return nil, err
		case ctx.Err() != nil:
			return nil, nil //nolint:nilnil // asked to stop before it served
		case exclusive():
			r.config.Logger.Warn("serving without etcd, from the last good documents", "error", err)
			lease := etcd.NewLease(registration)
			lingerAfterCrash(ctx, lease)
			lease.Assume()
			return lease, nil
		}
		r.config.Logger.Warn("waiting for etcd: another server of this colo may be serving", "error", err)
	}
}

// hasRival reports whether a table knows another server of the colo than node, in force or not.
func hasRival(t *fleet.Table, colo, node string) bool {
	return slices.ContainsFunc(t.Servers(colo), func(s *fleet.Server) bool { return s.Node != node }) ||
		slices.ContainsFunc(t.Conflicts, func(c fleet.Conflict) bool { return c.What == fleet.ConflictColo && c.Value == colo })
}

// lingerAfterCrash waits until engines have noticed the end of an earlier process of this server, whose requests would
// otherwise run beside those of this one.
func lingerAfterCrash(ctx context.Context, lease *etcd.Lease) {
	if lease.AfterCrash() {
		ctxtime.Sleep(ctx, colo.Linger)
	}
}

// applyTables applies each new table to the server, and reports dead endpoints to the watcher: it removes those with an
// expired lease from the table.
func applyTables(ctx context.Context, w *etcd.Watcher, server *colo.Server) error {
	probe := time.NewTicker(deadInterval)
	defer probe.Stop()
	changed := w.Changed()
	server.Apply(w.Table())
	for {
		select {
		case <-changed:
			changed = w.Changed()
			server.Apply(w.Table())
		case <-probe.C:
			w.MarkDead(server.DeadEndpoints()...)
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *runtime) coloPages(server *colo.Server, serving *atomic.Bool) admin.Config {
	return admin.Config{
		Ready: func() error {
			switch {
			case server.Draining():
				return errors.New("draining")
			case r.starting():
				return errors.New("starting: no documents yet, since etcd has not answered")
			case !serving.Load():
				return errors.New("not serving yet: another server of the colo may still be granting")
			case !server.GrantsEnabled():
				return errors.New("granting nothing: etcd has not confirmed that this server still holds its key")
			}
			return nil
		},
		Pools: func(accounts int) any { return server.PoolStates(accounts) },
		Check: server.Check,
	}
}
