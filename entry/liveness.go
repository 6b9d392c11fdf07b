package entry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/transport"
)

// livenessTimings are the times after which an entry finds servers that have stopped without closing their connections.
type livenessTimings struct {
	sweep         time.Duration // between two sweeps of all servers
	probeAfter    time.Duration // silence after which a server with a pending attempt is probed: asked for a sign of life
	giveUpAfter   time.Duration // silence after which its requests go elsewhere
	probeInterval time.Duration // between two probes of a server that is silent, or whose lease has expired
	probeTimeout  time.Duration // longest time of one probe
}

func defaultLivenessTimings() livenessTimings {
	return livenessTimings{
		sweep: 100 * time.Millisecond, probeAfter: 500 * time.Millisecond, giveUpAfter: time.Second, probeInterval: time.Second, probeTimeout: time.Second,
	}
}

// deadAfter is how many probes in a row must fail before a server whose lease has expired counts as dead.
const deadAfter = 2

// silentLifetime is for how long a silent server that is not in the table counts as silent.
const silentLifetime = time.Minute

// errSilent is the cause by which an attempt at a silent server is cancelled.
var errSilent = errors.New("the server has shown no sign of life for a second")

// errCutOff is the error of a response that began while its attempt was being given up. The request must not be sent again.
var errCutOff = errors.New("the response began while its server was given up as silent")

// liveness watches the colo servers that have pending attempts of this entry, and those whose lease has expired. One goroutine sweeps all of
// them ten times a second, so a request costs two short critical sections, and no timer.
//
// A server that is only slow answers the probe. A refused connection is no failed probe: it comes from a host that runs, or from a server
// that drains.
type liveness struct {
	table    func() *fleet.Table
	alive    func(context.Context, *fleet.Server) error // probes a server
	markDead func(keys ...string)
	timings  livenessTimings

	anySilent atomic.Bool // whether any server is silent; spares requests the mutex while none is

	mu      sync.Mutex // guards the fields below
	swept   time.Time
	known   *fleet.Table // table from which inTable and expired were computed
	inTable map[process]bool
	servers map[process]*watchedServer // also those that are not in the table, but were named by a verdict
}

// process is one process of a colo server.
type process struct{ colo, node, boot string }

func processOf(s *fleet.Server) process { return process{s.Colo, s.Node, s.Boot} }

// watchedServer is the state of a server that an entry watches. All fields but heard are guarded by [liveness].mu.
type watchedServer struct {
	server *fleet.Server
	heard  atomic.Bool // it has sent something since the last sweep

	waiting    map[*pendingAttempt]struct{}
	quietSince time.Time // since when it has sent nothing although an attempt is pending
	probedAt   time.Time // begin of the last probe
	probing    bool      // the last probe has not ended yet
	failed     int       // probes in a row without an answer
	silent     bool      // requests avoid it
	expired    bool      // its lease has expired
}

// pendingAttempt is an attempt that has no first byte yet.
type pendingAttempt struct {
	server  *watchedServer
	cancel  func(cause error)
	givenUp bool
}

func newLiveness(table func() *fleet.Table, alive func(context.Context, *fleet.Server) error, markDead func(...string)) *liveness {
	return &liveness{table: table, alive: alive, markDead: markDead, servers: map[process]*watchedServer{}}
}

// watch runs an attempt at a server. It cancels the attempt with [errSilent] if the server shows no sign of life before the first byte.
func (l *liveness) watch(s *fleet.Server, began time.Time, do func(*transport.Abort) (*peer.Answer, error)) (*peer.Answer, error) {
	abort := new(transport.Abort)
	u := l.begin(s, began, abort.End)
	ended := false
	defer func() {
		if !ended { // after a panic
			l.end(u, false)
		}
	}()
	answer, err := do(abort)
	givenUp := l.end(u, err == nil || isAnswered(err))
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
		answer.OnChunk = u.server.hear
	}
	return answer, nil
}

// isAnswered reports whether an attempt that failed was answered.
func isAnswered(err error) bool {
	var noVerdict *peer.NoVerdictError
	return errors.As(err, &noVerdict)
}

// begin notes an attempt that began now.
func (l *liveness) begin(s *fleet.Server, now time.Time, cancel func(cause error)) *pendingAttempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watchedLocked(s)
	if len(w.waiting) == 0 && !w.silent {
		w.quietSince = now
	}
	u := &pendingAttempt{server: w, cancel: cancel}
	w.waiting[u] = struct{}{}
	return u
}

func (l *liveness) watchedLocked(s *fleet.Server) *watchedServer {
	w := l.servers[processOf(s)]
	if w == nil {
		w = &watchedServer{server: s, waiting: map[*pendingAttempt]struct{}{}}
		l.servers[processOf(s)] = w
	}
	return w
}

// end notes that an attempt has ended, and reports whether it was given up. heard means that its server has sent something. Further calls
// do nothing.
func (l *liveness) end(u *pendingAttempt, heard bool) (givenUp bool) {
	if heard {
		u.server.hear()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(u.server.waiting, u)
	return u.givenUp
}

// hear notes that the server has sent something. It is called for each chunk of a stream, so it does not read the clock.
func (w *watchedServer) hear() {
	if !w.heard.Load() {
		w.heard.Store(true)
	}
}

// isSilent reports whether a server has shown no sign of life lately.
func (l *liveness) isSilent(s *fleet.Server) bool {
	if !l.anySilent.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.servers[processOf(s)]
	return w != nil && w.silent
}

// run watches the servers until ctx ends.
func (l *liveness) run(ctx context.Context) {
	tick := time.NewTicker(l.timings.sweep)
	defer tick.Stop()
	var probes sync.WaitGroup
	defer probes.Wait()
	for {
		select {
		case <-tick.C:
			for _, p := range l.sweep(time.Now()) {
				probes.Go(func() { l.probe(ctx, p) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// probe asks one server for a sign of life, and notes the result.
func (l *liveness) probe(ctx context.Context, p probe) {
	within, cancel := context.WithTimeout(ctx, l.timings.probeTimeout)
	defer cancel()
	err := l.alive(within, p.server)
	if ctx.Err() != nil || netconn.IsLocalShortage(err) || errors.Is(err, peer.ErrNotSigned) {
		l.notProbed(p.watched)
		return
	}
	if key := l.probed(p.watched, err, time.Now()); key != "" && l.markDead != nil {
		l.markDead(key)
	}
}

// notProbed notes that a probe gave no evidence about the server.
func (l *liveness) notProbed(w *watchedServer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.probing = false
}

// probed notes the result of a probe. It returns the key of the server's document if its lease has expired and it is dead.
func (l *liveness) probed(w *watchedServer, err error, now time.Time) (dead string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.probing = false
	refused := peer.IsRefused(err)
	switch {
	case err == nil:
		w.noteAlive(now)
	case !refused:
		w.failed++
	}
	if w.expired && (refused || w.failed >= deadAfter) {
		return fleet.KindServer.Key(w.server.Colo, w.server.Node)
	}
	return ""
}

// noteAlive notes a sign of life.
func (w *watchedServer) noteAlive(now time.Time) { w.quietSince, w.failed, w.silent = now, 0, false }
