package entry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/accounts/jwt"
	"colonnade/analytics/capture"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/liveness"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/ratelimit/shared"
	"colonnade/reasons"
	"colonnade/routing"
	"colonnade/tracing"
)

// Config configures an entry. All fields but Region, Position, Open, Starting, WriteStall, TLS, MaxConnsPerIP, MaxConns, MaxAccounts,
// BodyMemory, Peers, Via, Local, Issuers, Captures, Tracer and MarkDead are required.
type Config struct {
	Node          string
	Region        string          // empty = none
	Position      *fleet.Position // nil = not known
	Open          bool            // requests without a valid key are served, as the account "open"
	Keys          *hop.Keys
	Table         func() *fleet.Table
	Starting      func() bool // reports that no table has arrived yet; nil = one has
	Log           *journal.Log
	Metrics       metrics.Registerer
	MaxAccounts   int // with metrics of their own; 0 = none
	Logger        *slog.Logger
	WriteStall    time.Duration       // longest time for one write to a client; 0 = 30 s
	TLS           *tls.Config         // for clients; nil = plain HTTP
	MaxConnsPerIP int                 // limit on connections of one address; 0 = none
	MaxConns      int                 // limit on all connections; 0 = [server.MaxConns]
	BodyMemory    int64               // of all unfinished bodies, in bytes; 0 = [server.DefaultBodyMemory]
	Peers         *peertls.TrustStore // for mutual TLS with colo servers; nil = without TLS
	// Via returns the address to connect to instead of that of a server, see [peer.Client]; nil = the server's own.
	Via func(peer.Server) (address string)
	// NoLinks gives each request to a colo server a connection of its own: see [peer.Client].
	NoLinks bool
	// Local returns the way to a colo server that runs in this process, or nil for any other; nil = all run elsewhere.
	Local func(*fleet.Server) peer.Func
	// LocalModelFacts returns what the colo server of this process answers to the question about models; nil = it is asked as others are.
	LocalModelFacts func() peer.ModelFacts
	// MarkDead says that the servers with these keys, whose leases have expired, do not live any more; nil = that is not looked for.
	MarkDead func(keys ...string)

	// Limiter enforces limits of requests, tokens and cost; nil = one of the entry's own, which keeps nothing.
	Limiter *shared.Limiter

	// Issuers returns the newest issuers of tokens, whose keys are fetched; nil = no token is accepted.
	Issuers     func() []*fleet.Issuer
	IssuersFile string // where their last good key sets are kept; empty = nowhere

	// Captures returns the newest captures of requests; nil = nothing is captured.
	Captures func() []*fleet.Capture

	Tracer *tracing.Tracer // records spans of requests; nil = none are recorded

	Liveness liveness.Timings // after which a server is silent; zero = liveness.DefaultTimings
}

// Entry is one edge node.
type Entry struct {
	config    Config
	transport *transport.Transport
	sender    *liveness.Sender
	budget    *hop.RetryBudget
	observed  *observations
	floods    *floodGuard
	limiter   *shared.Limiter
	outputs   *outputEstimates
	tokens    *jwt.Verifier
	ranking   ranking
	planner   *routing.Planner
	plans     sync.Pool // of *[]routing.Stop, for plans that are made
	active    *activity
	metrics   *metrics.Entry
	captures  *capture.Recorder
	http      *server.Server

	inflight *server.Inflight
	buffers  realtime.Buffers // of realtime sessions
	probers  healthCheckers
	models   knownModels
	facts    modelFacts
	started  atomic.Bool // a table has arrived
	draining atomic.Bool // readiness is off
	refusing atomic.Bool // requests are refused

	knewServer atomic.Bool // readiness has found an active server
}

// errDrained is the cause of the end of requests that were still running when the drain timeout passed.
var errDrained = errors.New("entry is shutting down")

// New returns an entry; the caller calls Run and Serve.
func New(c Config) (*Entry, error) {
	inflight, err := server.NewInflight(c.Logger, cmp.Or(c.BodyMemory, server.DefaultBodyMemory))
	if err != nil {
		return nil, err
	}
	if c.Limiter == nil {
		if c.Limiter, err = shared.New(shared.Config{Nodes: func() int { return 1 }, Logger: c.Logger}); err != nil {
			return nil, err
		}
	}
	e := &Entry{
		config:    c,
		limiter:   c.Limiter,
		outputs:   newOutputEstimates(),
		transport: transport.New(c.Logger),
		budget:    hop.NewRetryBudget(),
		plans:     sync.Pool{New: func() any { return new([]routing.Stop) }},
		planner:   routing.NewPlanner(routing.Place{Region: c.Region, Position: c.Position}),
		floods:    newFloodGuard(),
		tokens:    jwt.New(jwt.Config{Issuers: c.Issuers, File: c.IssuersFile, Logger: c.Logger}),
		active:    newActivity(),
		captures:  capture.New(capture.Config{Node: c.Node, Captures: c.Captures, Logger: c.Logger}),
		inflight:  inflight,
	}
	e.observed = newObservations(c.Table, func(s *fleet.Server) bool { return e.local(s) != nil })
	client := &peer.Client{Node: c.Node, Transport: e.transport, Keys: c.Keys, Peers: c.Peers, Via: c.Via, Multiplex: !c.NoLinks}
	e.sender = &liveness.Sender{Client: client, Watcher: liveness.New(e.watcherConfig())}
	e.facts.wanted = make(chan struct{}, 1)
	e.metrics = metrics.NewEntry(c.Metrics, c.Table, func() []metrics.ModelState { return e.active.states(c.Table()) }, c.MaxAccounts)
	e.http = server.New(server.Config{
		Handle:        e.serve,
		HandleError:   e.refuseUnreadable,
		RejectEarly:   e.rejectEarly,
		Inflight:      inflight,
		Logger:        c.Logger,
		TLS:           c.TLS,
		MaxPerIP:      c.MaxConnsPerIP,
		MaxConns:      c.MaxConns,
		OnRefusedConn: func() { e.metrics.Refused(reasons.TooManyConnections) }, // there is no request, and so no event
	})
	metrics.RegisterColos(c.Metrics, e.coloStates)
	if e.limiter.State().Redis {
		metrics.RegisterRedis(c.Metrics, func() bool { return e.limiter.State().Away.IsZero() })
	}
	metrics.RegisterOutOfTurn(c.Metrics, e.transport.Distrusted)
	metrics.RegisterLinks(c.Metrics, "out", func() metrics.LinkStats { return metrics.LinkStats(e.transport.LinkStats()) })
	metrics.RegisterConnections(c.Metrics, func() metrics.ConnStats {
		return metrics.ConnStats(e.http.ConnStats())
	})
	return e, nil
}

// Run runs the background work until ctx ends.
func (e *Entry) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	watching.Go(func() { e.sender.Watcher.Run(ctx) })
	watching.Go(func() { e.runPings(ctx) })
	watching.Go(func() { e.limiter.Run(ctx) })
	watching.Go(func() { e.runFacts(ctx) })
	if e.config.Captures != nil {
		watching.Go(func() { e.captures.Run(ctx) })
	}
	if e.config.Issuers != nil {
		watching.Go(func() { e.tokens.Run(ctx) })
	}
	defer watching.Wait()
	return e.transport.Run(ctx)
}

// Issuers returns what is known of the keys of the issuers of tokens.
func (e *Entry) Issuers() []jwt.State { return e.tokens.States() }

// Captures returns the captures of requests that are in force.
func (e *Entry) Captures() []capture.State { return e.captures.States() }

// Serve answers clients on ln until Shutdown.
func (e *Entry) Serve(ln net.Listener) error { return e.http.Serve(ln) }

// Ready returns why clients should go to another entry, or nil. It is not about what every entry has in common, such as documents by which
// no request can be served: if all entries were not ready at once, clients would get no answer instead of one that says why.
func (e *Entry) Ready() error {
	switch {
	case e.draining.Load():
		return errors.New("draining")
	case e.starting():
		return errors.New("starting: there are no documents yet; the log says what is awaited")
	}
	if e.hasServer() {
		e.knewServer.Store(true)
		return e.notBelieved()
	}
	if e.knewServer.Load() {
		return nil // the other entries have the same documents
	}
	return errors.New("no colo has a live server")
}

// hasServer reports whether any colo has an active server.
func (e *Entry) hasServer() bool {
	t := e.config.Table()
	return slices.ContainsFunc(t.Colos(), func(c *fleet.Colo) bool { return serverToPing(t, c.Name, 0) != nil })
}

// Draining reports whether Drain was called.
func (e *Entry) Draining() bool { return e.draining.Load() }

// RefusesAll reports whether every request is refused for the lack of any API key, and of any issuer of tokens.
func (e *Entry) RefusesAll() bool {
	t := e.config.Table()
	return !e.config.Open && !t.HasAPIKeys() && len(t.Issuers()) == 0
}

// starting reports whether no table has arrived yet. Once one has, it does not ask again.
func (e *Entry) starting() bool {
	if e.started.Load() {
		return false
	}
	starting := e.config.Starting != nil && e.config.Starting()
	e.started.Store(!starting)
	return starting
}

// Drain turns readiness off and makes each answer the last of its connection. Requests are still served.
func (e *Entry) Drain() {
	e.draining.Store(true)
	e.http.Drain()
}

// Undrain ends what Drain has begun. It must not be called once Shutdown was.
func (e *Entry) Undrain() {
	e.probers.forgetDrain()
	e.http.Undrain()
	e.draining.Store(false)
}

// InFlight returns the number of requests that have begun and not ended.
func (e *Entry) InFlight() int { return e.inflight.Count() }

// Shutdown serves until load balancers have noticed the drain, then refuses new requests. It waits for running requests until ctx ends,
// then ends them, and returns once none is left.
func (e *Entry) Shutdown(ctx context.Context, p server.DrainTimings) error {
	e.Drain()
	e.http.AwaitQuiet(ctx, p, e.probers.expected)
	e.refusing.Store(true)
	e.config.Logger.Info("taking no more requests", "in_flight", e.inflight.Count())
	e.http.StopAccepting(p) // a load balancer without health checks understands a closed port
	return e.http.Shutdown(ctx, p, errDrained)
}

// Check returns every invariant that does not hold.
func (e *Entry) Check() []error {
	// Counted twice, so that a request that begins or ends meanwhile does not look like a leak.
	before := e.inflight.Count()
	if n := e.active.total(); n > 0 && before == 0 && e.inflight.Count() == 0 {
		return []error{fmt.Errorf("%d requests are counted as active, and none is in flight", n)}
	}
	return nil
}

// maxBody returns the largest max_body of any model, in bytes.
func (e *Entry) maxBody() int { return e.config.Table().MaxBody().Int() }

// refuseUnreadable answers a request that could not be read. No web page can read the answer, since fasthttp has discarded the head.
func (e *Entry) refuseUnreadable(rc *fasthttp.RequestCtx, err *openai.Error) {
	c := e.newCall(rc, time.Now())
	defer c.close()
	c.refuse(err)
}
