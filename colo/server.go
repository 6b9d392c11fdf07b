package colo

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/admission"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/discovery/engines/kvevents"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/liveness"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/homes"
	"colonnade/tracing"
)

// Linger is how long a cancelled request's slot may wait for the engine to close the connection.
const Linger = 250 * time.Millisecond

// bootSize is the length of a boot id, in characters of five bits.
const bootSize = 13

// Config configures a colo server. The fields up to Logger are required.
type Config struct {
	Colo, Node  string
	Keys        *hop.Keys
	Log         *journal.Log
	Metrics     metrics.Registerer
	Logger      *slog.Logger
	WriteStall  time.Duration                      // longest time for one write to an entry; 0 = 30 s
	MaxConns    int                                // limit on all connections; 0 = [server.MaxConns]
	MaxAccounts int                                // with metrics of their own; 0 = none
	BodyMemory  int64                              // of all unfinished bodies, in bytes; 0 = [server.DefaultBodyMemory]
	Peers       *peertls.TrustStore                // for mutual TLS with other nodes; nil = a token suffices, without TLS
	Via         func(peer.Server) (address string) // see [peer.Client]; nil = to the address of each server
	Liveness    liveness.Timings                   // after which a server of another colo is silent; zero = liveness.DefaultTimings

	// Homes returns the home of a pool. It is called for each request, by several goroutines at once. Nil = this server is the home of all.
	Homes func(pool string) Home
	// Owned answers the question of another server of the colo: what this process owns and holds, if about is its boot id. It is called by
	// several goroutines at once. Nil = the question is refused.
	Owned func(asker homes.Process, about string) homes.Answer

	CredentialsDir string   // files with credentials of engines are read only below it; empty = none is read
	OwnFiles       []string // of the node; none is ever read as a credential

	Tracer *tracing.Tracer // records spans of requests; nil = none are recorded

	NoLinks         bool // each request to another server has a connection of its own: see [peer.Client]
	WithoutListener bool // requests come only by Do, so there are no metrics of connections
}

// Server is one colo server.
type Server struct {
	config      Config
	pools       *admission.Manager
	transport   *transport.Transport
	client      *peer.Client     // asks other servers of the colo
	sender      *liveness.Sender // sends requests on to servers of other colos
	budget      *hop.RetryBudget
	metrics     *metrics.Colo
	credentials *credentials
	http        *server.Server
	boot        string   // id of this process
	name        string   // its hop.NodeName
	path        []string // name alone, which is the path of most requests; not changed
	process     string   // the node with the boot id, in event ids
	replays     *hop.ReplayGuard
	tokenLog    tokenLog
	engineLog   engineLog
	modelLists  modelLists

	applying  sync.RWMutex // held while the pools are newer than applied
	applied   atomic.Pointer[appliedTable]
	inflight  *server.Inflight
	buffers   realtime.Buffers // of realtime sessions
	edited    editedBodies
	fields    fieldLists
	backlogs  relay.Backlogs
	sessions  sessionUsages
	facts     modelFacts
	takeovers takeovers
	draining  atomic.Bool
	granted   atomic.Int64 // permits so far
	forwards  atomic.Int64 // requests so far that went on to another colo

	calls  sync.RWMutex // read-locked while Do begins a request; guards the field below
	closed bool         // Do refuses requests
}

// errDrained is the cause of the end of requests that were still running when the drain timeout passed.
var errDrained = errors.New("server is shutting down")

// New returns a server; the caller calls Run and Serve.
func New(c Config) (*Server, error) {
	inflight, err := server.NewInflight(c.Logger, cmp.Or(c.BodyMemory, server.DefaultBodyMemory))
	if err != nil {
		return nil, err
	}
	s := &Server{
		config:      c,
		transport:   transport.New(c.Logger),
		inflight:    inflight,
		budget:      hop.NewRetryBudget(),
		credentials: newCredentials(c.CredentialsDir, c.OwnFiles, c.Logger),
		boot:        rand.Text()[:bootSize],
	}
	s.takeovers = newTakeovers()
	s.name = hop.NodeName(c.Colo, c.Node)
	s.path = []string{s.name}
	s.process = c.Node + "/" + s.boot
	s.client = &peer.Client{Colo: c.Colo, Node: c.Node, Transport: s.transport, Keys: c.Keys, Peers: c.Peers, Via: c.Via, Multiplex: !c.NoLinks}
	s.sender = &liveness.Sender{Client: s.client, Watcher: liveness.New(liveness.Config{Alive: s.client.Alive, Timings: c.Liveness})}
	s.replays, s.tokenLog = hop.NewReplayGuard(s.boot), newTokenLog()
	s.applied.Store(newAppliedTable(fleet.NewTable(fleet.Contents{})))
	s.pools = admission.NewManager(c.Colo, s.probe, c.Logger)
	s.pools.SetPathRule(pathRule)
	s.pools.SetFigures(s.readFigures)
	s.pools.SetEvents(kvevents.Follow)
	s.metrics = metrics.NewColo(c.Metrics, s.table, s.Pools, c.MaxAccounts)
	metrics.RegisterGrants(c.Metrics, s.GrantsEnabled)
	metrics.RegisterOutOfTurn(c.Metrics, s.transport.Distrusted)
	s.http = server.New(server.Config{
		Handle:         s.serve,
		HandleExchange: s.serveExchange,
		HandleError:    s.refuseUnreadable,
		RejectEarly:    s.rejectEarly,
		Inflight:       inflight,
		Logger:         c.Logger,
		Peers:          c.Peers,
		MaxConns:       c.MaxConns,
		Flusher:        s.transport.Flusher(),
	})
	if !c.WithoutListener {
		metrics.RegisterConnections(c.Metrics, func() metrics.ConnStats {
			return metrics.ConnStats(s.http.ConnStats())
		})
		metrics.RegisterLinks(c.Metrics, "in", func() metrics.LinkStats { return metrics.LinkStats(s.http.LinkStats()) })
		metrics.RegisterLinks(c.Metrics, "out", func() metrics.LinkStats { return metrics.LinkStats(s.transport.LinkStats()) })
	}
	return s, nil
}

// Boot returns the id of this process, which no earlier or later process of the server has. Hop tokens are bound to it.
func (s *Server) Boot() string { return s.boot }

// Run runs the background work until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	probing := make(chan error, 1)
	go func() { probing <- s.pools.Run(ctx) }()
	var watching sync.WaitGroup
	watching.Go(func() { s.sender.Watcher.Run(ctx) })
	watching.Go(func() { s.runTakeovers(ctx) })
	err := s.transport.Run(ctx)
	cancel()
	watching.Wait()
	return errors.Join(err, <-probing)
}

// Serve answers the fleet's requests on ln until Shutdown.
func (s *Server) Serve(ln net.Listener) error { return s.http.Serve(ln) }

// Drain answers waiting requests, and those that would have to wait, with the verdict moved. A request that finds a free slot is still
// served: not every entry may know of the drain yet.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.http.Drain()
	s.pools.CloseQueues()
}

// Draining reports whether Drain was called.
func (s *Server) Draining() bool { return s.draining.Load() }

// InFlight returns the number of requests that have begun and not ended.
func (s *Server) InFlight() int { return s.inflight.Count() }

// Shutdown serves until no entry sends requests any more, and the next home of each pool has asked what was learned of it, then refuses new ones. It waits for running requests until ctx ends, then ends
// them, and returns once none is left. The listener stays open until then: the verdict moved costs a request less than a closed port.
func (s *Server) Shutdown(ctx context.Context, p server.DrainTimings) error {
	s.Drain()
	s.http.AwaitQuiet(ctx, p, s.awaitsQuestion)
	s.pools.Drain()
	s.refuseCalls()
	s.config.Logger.Info("taking no more requests", "in_flight", s.inflight.Count())
	return s.http.Shutdown(ctx, p, errDrained)
}

// refuseCalls makes Do refuse requests from now on.
func (s *Server) refuseCalls() {
	s.calls.Lock()
	defer s.calls.Unlock()
	s.closed = true
}

// maxBody returns the largest max_body of any model, in bytes.
func (s *Server) maxBody() int { return s.table().MaxBody().Int() }

// probe requests an endpoint's health path. A panic while reading the answer is our fault, not the endpoint's.
func (s *Server) probe(ctx context.Context, e *fleet.Endpoint) (err error) {
	defer func() {
		if server.LogPanic(s.config.Logger.With("endpoint", e.ID), "health check", recover()) {
			err = fmt.Errorf("%w: health check panicked", admission.ErrNotChecked)
		}
	}()
	if err := s.ask(ctx, e); err != nil {
		return err
	}
	if s.pools.WantsModels(e.URL) {
		s.ReadModels(ctx, e)
	}
	return nil
}

func (s *Server) ask(ctx context.Context, e *fleet.Endpoint) error {
	target, err := transport.ParseTarget(e.URL)
	if err != nil {
		return err
	}
	fields, err := s.credentials.appendFields(nil, e)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	answer, err := s.transport.Do(ctx, &transport.Request{
		Target: target, Method: "GET", Path: e.Health.Path, Fields: fields, ConnectTimeout: time.Until(deadline), Deadline: deadline,
	}, transport.ReadOptions{})
	if netconn.IsLocalShortage(err) {
		return fmt.Errorf("%w: %w", admission.ErrNotChecked, err)
	}
	if err != nil {
		return err
	}
	defer answer.Close()
	if answer.Status() >= 300 {
		return fmt.Errorf("health path %s answered %d", e.Health.Path, answer.Status())
	}
	return nil
}
