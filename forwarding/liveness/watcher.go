package liveness

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
)

// Timings are the times after which a watcher finds servers that have stopped without closing their connections.
type Timings struct {
	Sweep         time.Duration // between two sweeps of all servers
	ProbeAfter    time.Duration // silence after which a server with a pending attempt is probed: asked for a sign of life
	GiveUpAfter   time.Duration // silence after which its requests go elsewhere
	ProbeInterval time.Duration // between two probes of a server that is silent, or whose lease has expired
	ProbeTimeout  time.Duration // longest time of one probe
}

// DefaultTimings returns the timings of nodes.
func DefaultTimings() Timings {
	return Timings{
		Sweep: 100 * time.Millisecond, ProbeAfter: 500 * time.Millisecond, GiveUpAfter: time.Second, ProbeInterval: time.Second, ProbeTimeout: time.Second,
	}
}

const (
	// deadAfter is how many probes in a row must fail before a server whose lease has expired counts as dead.
	deadAfter = 2
	// silentLifetime is for how long a silent server that is not registered counts as silent.
	silentLifetime = time.Minute
	// idleLifetime is for how long a watcher that knows no registrations keeps a server without a pending attempt: streams that it sends
	// are signs of life.
	idleLifetime = time.Minute
)

// errCutOff is the error of a response that began while its attempt was being given up. The request must not be sent again.
var errCutOff = errors.New("the response began while its server was given up as silent")

// Config configures a watcher. Alive is required.
type Config struct {
	Alive func(context.Context, peer.Server) error // probes a server; see [peer.Client.Alive]
	// Registered returns all registered servers, unless nothing has changed since its last call. One goroutine calls it, and it must not
	// call the watcher. Nil = servers are known only by the attempts at them.
	Registered func() (servers []Registered, changed bool)
	// MarkDead reports a server whose lease has expired, and which does not live any more; nil = that is not looked for.
	MarkDead func(peer.Server)
	Timings  Timings // zero = DefaultTimings
}

// Registered is a registered server.
type Registered struct {
	Server  peer.Server
	Expired bool // its lease has expired
}

// Watcher watches the servers that have pending attempts of this process, and those whose lease has expired.
type Watcher struct {
	config    Config
	anySilent atomic.Bool // whether any server is silent; spares requests the mutex while none is

	mu         sync.Mutex // guards the fields below
	swept      time.Time
	registered map[process]bool
	servers    map[process]*watchedServer // also those that are not registered, but were named by a verdict or a hop token
}

// process is one process of a colo server.
type process struct{ colo, node, boot string }

func processOf(s *peer.Server) process { return process{s.Colo, s.Node, s.Boot} }

// watchedServer is the state of a server that is watched. All fields but heard are guarded by [Watcher].mu.
type watchedServer struct {
	server peer.Server
	heard  atomic.Bool // it has sent something since the last sweep

	waiting    map[*pendingAttempt]struct{}
	usedAt     time.Time // when an attempt was last pending; kept only for servers that are not registered
	quietSince time.Time // since when it has sent nothing although an attempt is pending
	probedAt   time.Time // begin of the last probe
	probing    bool      // the last probe has not ended yet
	failed     int       // probes in a row without an answer
	silent     bool      // it has shown no sign of life for GiveUpAfter; requests avoid it
	expired    bool      // its lease has expired
}

// pendingAttempt is an attempt that has no first byte yet.
type pendingAttempt struct {
	server  *watchedServer
	abort   transport.Abort // ends it
	givenUp bool
}

// New returns a watcher; the caller calls Run.
func New(c Config) *Watcher {
	c.Timings = cmp.Or(c.Timings, DefaultTimings())
	return &Watcher{config: c, servers: map[process]*watchedServer{}}
}

// Run watches the servers until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	tick := time.NewTicker(w.config.Timings.Sweep)
	defer tick.Stop()
	var probes sync.WaitGroup
	defer probes.Wait()
	for {
		select {
		case <-tick.C:
			for _, p := range w.sweep(time.Now()) {
				probes.Go(func() { w.probe(ctx, p) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// IsSilent reports whether a server has shown no sign of life lately.
func (w *Watcher) IsSilent(s peer.Server) bool {
	if !w.anySilent.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.servers[processOf(&s)]
	return watched != nil && watched.silent
}

// watch runs an attempt at a server. It ends the attempt with [peer.ErrSilent] if the server shows no sign of life before the first byte.
func (w *Watcher) watch(s peer.Server, do func(*transport.Abort) (*peer.Answer, error)) (*peer.Answer, error) {
	a := w.begin(&s, time.Now())
	ended := false
	defer func() {
		if !ended { // after a panic
			w.end(a, false)
		}
	}()
	answer, err := do(&a.abort)
	if isUnconnected(err) {
		w.noteUnconnected(a.server, time.Now())
	}
	givenUp := w.end(a, err == nil || isAnswered(err))
	ended = true
	if err != nil {
		return nil, err
	}
	if answer.Response == nil {
		return answer, nil
	}
	if _, whole := answer.Response.Body(); whole {
		return answer, nil
	}
	if givenUp { // an instant before the first byte, so the connection is closed already
		answer.Close()
		return nil, &transport.ExchangeError{Phase: transport.PhaseStream, Err: errCutOff}
	}
	if answer.OnChunk == nil {
		answer.OnChunk = a.server.hear
	}
	return answer, nil
}

// isAnswered reports whether an attempt that failed was answered.
func isAnswered(err error) bool {
	var noVerdict *peer.NoVerdictError
	return errors.As(err, &noVerdict)
}

// isUnconnected reports whether an attempt got no connection in time, for which this machine is not to blame.
func isUnconnected(err error) bool {
	var failed *transport.ExchangeError
	return errors.As(err, &failed) && failed.Phase == transport.PhaseConnect && failed.Timeout &&
		!netconn.IsLocalShortage(err) && !errors.Is(err, peer.ErrNotSigned)
}

// noteUnconnected notes that an attempt at a server got no connection in time. If the server has been quiet for GiveUpAfter, it is silent. No
// sweep would find that, since the attempt ends now, and each of the next ones would take as long. If sweeps are late, this process was stopped.
func (w *Watcher) noteUnconnected(s *watchedServer, now time.Time) {
	timings := &w.config.Timings
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.silent && !s.heard.Load() && now.Sub(s.quietSince) >= timings.GiveUpAfter && now.Sub(w.swept) < timings.ProbeAfter {
		s.silent = true
		w.anySilent.Store(true)
	}
}

// begin notes an attempt that began now.
func (w *Watcher) begin(s *peer.Server, now time.Time) *pendingAttempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	watched := w.watchedLocked(s)
	if len(watched.waiting) == 0 && !watched.silent {
		watched.quietSince = now
	}
	a := &pendingAttempt{server: watched}
	watched.waiting[a], watched.usedAt = struct{}{}, now
	watched.server = *s // where a newer verdict has it, perhaps
	return a
}

func (w *Watcher) watchedLocked(s *peer.Server) *watchedServer {
	watched := w.servers[processOf(s)]
	if watched == nil {
		watched = &watchedServer{server: *s, waiting: map[*pendingAttempt]struct{}{}}
		w.servers[processOf(s)] = watched
	}
	return watched
}

// end notes that an attempt has ended, and reports whether it was given up. heard means that its server has sent something. Further calls
// do nothing.
func (w *Watcher) end(a *pendingAttempt, heard bool) (givenUp bool) {
	if heard {
		a.server.hear()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(a.server.waiting, a)
	return a.givenUp
}

// hear notes that the server has sent something. It is called for each chunk of a stream, so it does not read the clock.
func (s *watchedServer) hear() {
	if !s.heard.Load() {
		s.heard.Store(true)
	}
}

// probe asks one server for a sign of life, and notes the result.
func (w *Watcher) probe(ctx context.Context, p probe) {
	within, cancel := context.WithTimeout(ctx, w.config.Timings.ProbeTimeout)
	defer cancel()
	err := w.config.Alive(within, p.server)
	if ctx.Err() != nil || netconn.IsLocalShortage(err) || errors.Is(err, peer.ErrNotSigned) {
		w.notProbed(p.watched)
		return
	}
	if w.probed(p.watched, err, time.Now()) && w.config.MarkDead != nil {
		w.config.MarkDead(p.server)
	}
}

// notProbed notes that a probe gave no evidence about the server.
func (w *Watcher) notProbed(s *watchedServer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.probing = false
}

// probed notes the result of a probe. It reports whether the server's lease has expired and it is dead.
func (w *Watcher) probed(s *watchedServer, err error, now time.Time) (dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.probing = false
	refused := peer.IsRefused(err)
	switch {
	case err == nil:
		s.noteAlive(now)
	case !refused:
		s.failed++
	}
	return s.expired && (refused || s.failed >= deadAfter)
}

// noteAlive notes a sign of life.
func (s *watchedServer) noteAlive(now time.Time) { s.quietSince, s.failed, s.silent = now, 0, false }
