package colo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/admission"
	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding"
	"colonnade/openai"
)

// linger is how long a cancelled request's slot may wait for the engine to close the connection.
const linger = 250 * time.Millisecond

// Config is what a colo server needs. All of it but WriteStall is required.
type Config struct {
	Colo, Node string
	Keys       *forwarding.Keys
	Table      func() *fleet.Table
	Log        *analytics.Log
	Metrics    *analytics.NodeMetrics
	Logger     *slog.Logger
	WriteStall time.Duration // longest time for one write to an entry; 0 = 30 s
}

// Server is one colo server.
type Server struct {
	config      Config
	desk        *admission.Desk
	transport   *forwarding.Transport
	budget      *forwarding.RetryBudget
	metrics     *analytics.ColoMetrics
	credentials *credentials
	http        *fasthttp.Server

	inHand   *forwarding.InHand
	draining atomic.Bool
}

// errDrained is the cause of requests that were still running when a drain's time was over.
var errDrained = errors.New("server is shutting down")

// New returns a server, to be run and served.
func New(c Config) (*Server, error) {
	inHand, err := forwarding.NewInHand(c.Logger)
	if err != nil {
		return nil, err
	}
	s := &Server{
		config:      c,
		transport:   forwarding.NewTransport(),
		inHand:      inHand,
		budget:      forwarding.NewRetryBudget(),
		credentials: newCredentials(),
	}
	s.desk = admission.NewDesk(c.Colo, s.probe, c.Logger)
	s.metrics = analytics.NewColoMetrics(c.Metrics.Registry, s.poolStates)
	s.http = forwarding.NewServer(forwarding.ServerConfig{
		Handle:  s.serve,
		Refuse:  s.refuseUnread,
		MaxBody: s.maxBody,
		InHand:  inHand,
		Logger:  c.Logger,
	})
	return s, nil
}

// Apply brings the server in line with a table.
func (s *Server) Apply(t *fleet.Table) { s.desk.Apply(t) }

// Run does what goes on beside requests, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	probing := make(chan error, 1)
	go func() { probing <- s.desk.Run(ctx) }()
	err := s.transport.Run(ctx)
	cancel()
	return errors.Join(err, <-probing)
}

// Serve answers the fleet's requests on ln until Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); err != nil {
		return fmt.Errorf("cannot serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Drain refuses newcomers and tells those who wait; what runs goes on.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.desk.Drain()
}

// Draining says whether Drain was called.
func (s *Server) Draining() bool { return s.draining.Load() }

// Shutdown waits for what runs until ctx ends, then ends it, and returns once nothing is in hand.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	stop := context.AfterFunc(ctx, func() { s.inHand.EndAll(errDrained) })
	defer stop()
	// Every request ends by itself once its context has.
	err := s.http.ShutdownWithContext(context.WithoutCancel(ctx))
	return errors.Join(err, s.inHand.Close())
}

// maxBody is the largest body that any model takes.
func (s *Server) maxBody() int { return s.config.Table().MaxBody().Int() }

// probe asks an endpoint's health path.
func (s *Server) probe(ctx context.Context, e *fleet.Endpoint) error {
	target, err := forwarding.ParseTarget(e.URL)
	if err != nil {
		return err
	}
	fields, err := s.credentials.fields(e)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	answer, err := s.transport.Do(ctx, &forwarding.Request{
		Target: target, Method: "GET", Path: e.Health.Path, Fields: fields, Connect: time.Until(deadline), End: deadline,
	}, forwarding.Shape{})
	if err != nil {
		return err
	}
	defer answer.Close()
	if answer.Status() >= 300 {
		return fmt.Errorf("health path %s answered %d", e.Health.Path, answer.Status())
	}
	return nil
}

// refuseUnread answers a request that could not even be read.
func (s *Server) refuseUnread(rc *fasthttp.RequestCtx, e *openai.Error) {
	forwarding.WriteError(rc, e, "")
}
