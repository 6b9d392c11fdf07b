package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"colonnade/admin"
	"colonnade/admin/api"
	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/entry"
	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/internal/ctxtime"
	"colonnade/ratelimit/shared"
)

// EntryConfig is what an entry needs.
type EntryConfig struct {
	Config
	Region   string
	Position *fleet.Position          // nil = not known
	Open     bool                     // serve requests without a valid key
	Redis    string                   // URL, by which the entries of a fleet share limits; empty = each enforces its share
	TLS      peertls.CertificateFiles // for clients; empty = plain HTTP

	// Local returns the way to a colo server of this process, or nil for any other; nil = all colo servers run elsewhere.
	Local func(*fleet.Server) peer.Func
	// LocalModelFacts, unless it is nil, is [colo.Server.ModelFacts] of a colo server of this process that has no listener for nodes.
	LocalModelFacts func() peer.ModelFacts

	// MaxConnsPerIP is the highest number of connections of one IP address, or of one IPv6 /64 network; 0 = 1024, or three quarters of
	// all connections if that is less, so that one address cannot take them all.
	MaxConnsPerIP int
}

const maxConnsPerIP = 1024

// connsPerIP returns the limit for one address, of so many connections in all.
func (c *EntryConfig) connsPerIP(all int) int {
	return cmp.Or(c.MaxConnsPerIP, min(maxConnsPerIP, max(all*3/4, 1)))
}

// RunEntry runs an entry until ctx is done, and then drains it. It calls serving once the entry serves.
func RunEntry(ctx context.Context, c EntryConfig, serving func(Running)) error {
	if err := c.checkSettings(); err != nil {
		return err
	}
	r, err := openEntryRuntime(&c)
	defer r.close()
	if err != nil {
		return err
	}
	e, err := r.newEntry(&c)
	if err != nil {
		return err
	}
	r.entry, r.unseen = e, []fleet.Kind{fleet.KindEndpoint, fleet.KindPool}
	t := newTasks(ctx)
	defer t.end()
	t.Go(func() error { return r.watcher.Run(t.ctx) })
	t.Go(func() error { return r.sinks.run(t.ctx) })
	t.Go(func() error { return e.Run(t.ctx) })
	t.Go(func() error { return r.keys.run(t.ctx, func() {}) })
	r.serveAdmin(t, admin.Config{Ready: e.Ready, Check: e.Check,
		Plan: func(model, account string) (any, error) { return e.ExplainPlan(model, account) }})
	serve := sync.OnceFunc(func() { t.Go(func() error { return e.Serve(r.requests) }) })
	if err := r.awaitTable(t.stopping, serve); err != nil { // without a table, requests are refused as "starting"
		t.end()
		err = e.Shutdown(t.ctx, server.DrainTimings{})
		return errors.Join(t.Wait(), err)
	}
	serve()
	registration := r.registerEntry(t, &c)
	r.maintenance.begin(r.drainableEntry(t.stopping, registration))
	serving(r.running())
	<-t.stopping.Done()
	r.maintenance.end()

	c.Logger.Info("draining", "node", c.Node, "for_at_most", c.Drain)
	drain, cancel := t.drainContext(c.Drain)
	defer cancel()
	e.Drain() // load balancers ask the entry, not etcd
	r.announceDrain(t, func(ctx context.Context) error { return registration.put(ctx, fleet.StateDraining) })
	err = e.Shutdown(drain, server.NewDrainTimings(c.Drain, entryNotice))
	t.end() // deregisters
	err = errors.Join(err, t.Wait())
	c.Logger.Info("stopped", "node", c.Node)
	return err
}

// openEntryRuntime opens the runtime of an entry, with the admin API.
func openEntryRuntime(c *EntryConfig) (*runtime, error) {
	c.clientTLS = c.TLS
	r, err := openRuntime(c.Config, "colonnade-entry", fleet.KindEntry.Key(c.Node), []string{"defaults", "models/", "flows/", "colos/", "accounts/", "keys/", "issuers/", "captures/", "sinks/", "servers/", "limits", "entries/"})
	if err != nil {
		return r, err
	}
	return r, r.openAPI(&change.Documents{Client: r.client}, "", api.Registrar{})
}

// newEntry makes the entry.
func (r *runtime) newEntry(c *EntryConfig) (*entry.Entry, error) {
	settings, err := r.entrySettings(c)
	if err != nil {
		return nil, err
	}
	peers, err := r.peerTLS(peertls.Identity{Role: peertls.RoleEntry, Node: c.Node})
	if err != nil {
		return nil, err
	}
	settings.Metrics, settings.Peers, settings.Via, settings.Liveness, settings.NoLinks = r.metrics, peers, c.Via, c.Liveness, c.NoLinks
	return entry.New(settings)
}

// entrySettings returns the settings of an entry, but its metrics and all that it has because of other nodes.
func (r *runtime) entrySettings(c *EntryConfig) (entry.Config, error) {
	public, err := r.publicTLS(c.TLS)
	if err != nil {
		return entry.Config{}, err
	}
	limiter, err := r.newLimiter(c)
	if err != nil {
		return entry.Config{}, err
	}
	maxConns := c.maxConns()
	return entry.Config{
		Node: c.Node, Region: c.Region, Position: c.Position, Open: c.Open, Keys: c.Keys, Table: r.watcher.Table, Starting: r.starting, Log: r.log,
		Logger: c.Logger, WriteStall: c.WriteStall, TLS: public, MaxConnsPerIP: c.connsPerIP(maxConns), MaxConns: maxConns, BodyMemory: c.BodyMemory, MaxAccounts: c.MetricsAccounts,
		Limiter: limiter, Tracer: r.tracer, Local: c.Local, LocalModelFacts: c.LocalModelFacts, MarkDead: r.watcher.MarkDead,
		Issuers: func() []*fleet.Issuer { return r.watcher.Table().Issuers() }, IssuersFile: c.file("issuers"),
		Captures: func() []*fleet.Capture { return r.watcher.Table().Captures() },
	}, nil
}

// newLimiter returns what enforces limits of requests, tokens and cost.
func (r *runtime) newLimiter(c *EntryConfig) (*shared.Limiter, error) {
	limiter, err := shared.New(shared.Config{
		Redis: c.Redis, Timeout: shared.DefaultTimeout, Nodes: func() int { return liveEntries(r.watcher.Table(), c.Node) },
		File: c.file("budgets"), Logger: c.Logger,
	})
	r.limiter = limiter
	return limiter, err
}

// RedisState says whether limits are shared through Redis.
type RedisState struct {
	Up    bool      `json:"up"`              // false: the entry enforces its share of limits
	Since time.Time `json:"since,omitzero"`  // when it stopped answering
	Error string    `json:"error,omitempty"` // why
}

// redisState returns nil for a node without Redis.
func (r *runtime) redisState() *RedisState {
	if r.limiter == nil {
		return nil
	}
	s := r.limiter.State()
	switch {
	case !s.Redis:
		return nil
	case s.Away.IsZero():
		return &RedisState{Up: true}
	}
	return &RedisState{Since: s.Away, Error: s.Err.Error()}
}

// liveEntries returns the number of registered entries. The entry called self lives, whether it is registered or not.
func liveEntries(t *fleet.Table, self string) int {
	others := 0
	for _, e := range t.Entries() {
		if e.Node != self {
			others++
		}
	}
	return others + 1
}

// entryDocument returns the document that the entry registers.
func (r *runtime) entryDocument(c *EntryConfig) fleet.EntryNode {
	return fleet.EntryNode{
		Address: r.advertiseAddress(), Admin: r.admin.Addr().String(), Region: c.Region, Position: c.Position, State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol}, Version: Version(),
	}
}

func (r *runtime) entryLease(self fleet.EntryNode) *etcd.Lease {
	return etcd.NewLease(etcd.Registration{
		Client: r.client, Prefix: Prefix, Key: "entries/" + r.config.Node, Value: encode(self), TTL: leaseTTL,
		Logger: r.config.Logger, SavedLease: r.config.file("lease"),
	})
}

// entryRegistration is the document that an entry registers.
type entryRegistration struct {
	lease *etcd.Lease
	put   func(ctx context.Context, state string) error // with another state; not for concurrent use
}

// registerEntry keeps the entry registered.
func (r *runtime) registerEntry(t tasks, c *EntryConfig) entryRegistration {
	self := r.entryDocument(c)
	lease := r.entryLease(self)
	t.Go(func() error { return keepRegistered(t.ctx, lease, c.Logger) })
	return entryRegistration{lease: lease, put: func(ctx context.Context, state string) error {
		self.State = state
		return lease.Update(ctx, encode(self))
	}}
}

// keepRegistered registers the entry, and tries again until that succeeds. An entry serves without being registered.
func keepRegistered(ctx context.Context, lease *etcd.Lease, logger *slog.Logger) error {
	for logged := false; ; logged = true {
		err := lease.Run(ctx)
		if err == nil {
			return nil // ctx is done
		}
		if !logged {
			logger.Warn("serving without being registered; trying again", "every", registerRetry, "error", err)
		}
		ctxtime.Sleep(ctx, registerRetry)
	}
}
