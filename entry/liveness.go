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

// livenessTimings are the times by which an entry finds servers that have stopped without closing their connections.
type livenessTimings struct {
	sweep    time.Duration // time between two looks at all servers
	ask      time.Duration // silence after which a server with an unanswered request is asked for a sign of life
	giveUp   time.Duration // silence after which its requests go elsewhere
	again    time.Duration // time between two questions to a server that is silent, or whose lease has expired
	question time.Duration // longest time of one question
}

func defaultLivenessTimings() livenessTimings {
	return livenessTimings{
		sweep: 100 * time.Millisecond, ask: 500 * time.Millisecond, giveUp: time.Second, again: time.Second, question: time.Second,
	}
}

// deadAfter is how many questions in a row a server whose lease has expired may leave unanswered.
const deadAfter = 2

// errSilent is the cause of the end of an attempt that was given up.
var errSilent = errors.New("the server has shown no sign of life for a second")

// errCutOff is the error of a response that began while its attempt was being given up. The request must not be sent again.
var errCutOff = errors.New("the response began while its server was given up as silent")

// liveness watches the servers elsewhere that have unanswered requests of this entry, and those whose lease has expired. One goroutine looks
// at all of them ten times a second, so a request costs two short critical sections, and no timer.
//
// A server that is only slow answers the question, and so do its operating system and a server that drains, by refusing the connection.
type liveness struct {
	table    func() *fleet.Table
	alive    func(context.Context, *fleet.Server) error // asks a server for a sign of life
	markDead func(keys ...string)
	timings  livenessTimings

	anySilent atomic.Bool // so that a request need not ask for each server while all are well

	mu      sync.Mutex // guards the fields below
	swept   time.Time
	known   *fleet.Table // by which expired is computed
	servers map[process]*watchedServer
}

// process is one process of a colo server.
type process struct{ colo, node, boot string }

func processOf(s *fleet.Server) process { return process{s.Colo, s.Node, s.Boot} }

// watchedServer is what an entry knows of the life of a server. All fields but heard are guarded by [liveness].mu.
type watchedServer struct {
	server *fleet.Server
	heard  atomic.Bool // it has sent something since the last sweep

	waiting    map[*unanswered]struct{}
	quietSince time.Time // since when it could have sent something, and has not
	askedAt    time.Time // of the last question
	asking     bool      // it has not answered yet
	failed     int       // questions in a row without an answer
	silent     bool      // requests avoid it
	expired    bool      // its lease has expired
}

// unanswered is an attempt without a first byte.
type unanswered struct {
	server  *watchedServer
	cancel  func(cause error)
	givenUp bool
}

func newLiveness(table func() *fleet.Table, alive func(context.Context, *fleet.Server) error, markDead func(...string)) *liveness {
	return &liveness{table: table, alive: alive, markDead: markDead, servers: map[process]*watchedServer{}}
}

// watch runs an attempt at a server, which is given up with [errSilent] if the server shows no sign of life. After the first byte it is not
// given up any more.
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
func (l *liveness) begin(s *fleet.Server, now time.Time, cancel func(cause error)) *unanswered {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.watchedLocked(s)
	if len(w.waiting) == 0 && !w.silent {
		w.quietSince = now
	}
	u := &unanswered{server: w, cancel: cancel}
	w.waiting[u] = struct{}{}
	return u
}

func (l *liveness) watchedLocked(s *fleet.Server) *watchedServer {
	w := l.servers[processOf(s)]
	if w == nil {
		w = &watchedServer{server: s, waiting: map[*unanswered]struct{}{}}
		l.servers[processOf(s)] = w
	}
	return w
}

// end notes that an attempt has ended, and reports whether it was given up. heard means that its server has sent something. Further calls
// do nothing.
func (l *liveness) end(u *unanswered, heard bool) (givenUp bool) {
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
	var questions sync.WaitGroup
	defer questions.Wait()
	for {
		select {
		case <-tick.C:
			for _, q := range l.sweep(time.Now()) {
				questions.Go(func() { l.ask(ctx, q) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// ask asks one server for a sign of life.
func (l *liveness) ask(ctx context.Context, q question) {
	within, cancel := context.WithTimeout(ctx, l.timings.question)
	defer cancel()
	err := l.alive(within, q.server)
	if ctx.Err() != nil || netconn.IsLocalShortage(err) || errors.Is(err, peer.ErrNotSigned) {
		l.unasked(q.of) // no evidence about the server
		return
	}
	if key := l.answered(q.of, err, time.Now()); key != "" && l.markDead != nil {
		l.markDead(key)
	}
}

func (l *liveness) unasked(w *watchedServer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.asking = false
}

// answered notes the result of a question. It returns the key of the server's document if its lease has expired and it is dead.
func (l *liveness) answered(w *watchedServer, err error, now time.Time) (dead string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.asking = false
	refused := peer.IsRefused(err)
	switch {
	case err == nil:
		w.alive(now)
	case !refused:
		w.failed++
	}
	if w.expired && (refused || w.failed >= deadAfter) {
		return fleet.KindServer.Key(w.server.Colo, w.server.Node)
	}
	return ""
}

// alive notes a sign of life.
func (w *watchedServer) alive(now time.Time) { w.quietSince, w.failed, w.silent = now, 0, false }
