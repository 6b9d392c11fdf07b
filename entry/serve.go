package entry

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/homes"
	"colonnade/openai"
	"colonnade/reasons"
	"colonnade/routing"
)

// serve answers one client request.
func (e *Entry) serve(rc *fasthttp.RequestCtx) {
	if e.serveHealth(rc) {
		return
	}
	c := e.newCall(rc)
	streaming := false
	defer func() {
		if !streaming {
			c.leave()
		}
	}()
	defer func() { c.recovered(recover()) }()
	t := e.config.Table()
	if err := e.checkHead(&rc.Request.Header, t); err != nil {
		c.refuse(err)
		rc.SetConnectionClose() // whoever speaks like this may have more behind it
		return
	}
	c.label()
	switch {
	case e.refusing.Load():
		c.refuse(openai.Unavailable(reasons.Draining, time.Second))
		return
	case e.starting():
		c.refuse(openai.Unavailable(reasons.Starting, time.Second))
		return
	}
	var err *openai.Error
	if c.head, err = e.readHead(&rc.Request.Header, t, c.arrived); err != nil {
		c.refuse(err)
		return
	}
	if c.route.API == openai.ListModels || c.route.API == openai.GetModel {
		c.listModels()
		return
	}
	streaming = c.infer(t)
}

// infer is the life of an inference request. It reports whether the answer goes on after the handler has returned.
func (c *call) infer(t *fleet.Table) (streaming bool) {
	if err := c.receive(t); err != nil {
		c.refuse(err)
		return false
	}
	c.logBegin()
	if c.events && c.tries.more() {
		c.announce()
		return true
	}
	switch answer := c.tryColos(); {
	case answer != nil:
		return c.relay(answer)
	case c.Context.Err() != nil:
		c.gone()
	default:
		c.refuse(c.tries.outcome())
	}
	return false
}

// tryColos tries one colo after another until one serves the request. It returns nil if none does, or if the request's
// context has ended.
func (c *call) tryColos() *peer.Answer {
	for {
		try, ok := c.tries.next()
		if !ok {
			return nil
		}
		if !c.firstBy.IsZero() && time.Until(c.firstBy) <= holdBack {
			c.tries.late() // no colo has any time left for it
			return nil
		}
		answer, err := c.forward(try)
		c.answer = answer
		if c.handleResult(try, answer, err) {
			return answer
		}
		if c.Context.Err() != nil {
			return nil
		}
	}
}

// receive finds out who asks, for what, and where it can go. The head was read by t.
func (c *call) receive(t *fleet.Table) *openai.Error {
	if c.route.API == openai.Realtime {
		if err := c.receiveRealtime(t); err != nil {
			return err
		}
		return c.plan(t)
	}
	t, err := c.readBody(t)
	if err != nil {
		return err
	}
	if c.body, err = openai.Peek(c.route.API, string(c.rc.Request.Header.ContentType()), c.raw); err != nil {
		return err
	}
	if c.body.Stream && !c.rc.Request.Header.IsHTTP11() {
		return openai.InvalidRequest("stream", "streams need HTTP/1.1; of a proxy in between, set its upstream protocol (nginx: proxy_http_version 1.1)")
	}
	if err = c.resolve(t, c.body.Model); err != nil {
		return err
	}
	if limit := int64(c.model.MaxBody); int64(len(c.raw)) > limit {
		return openai.RequestTooLarge(limit)
	}
	if err = c.mayRun(); err != nil {
		return err
	}
	return c.plan(t)
}

// readBody reads the body, and returns the table as it then is.
func (c *call) readBody(t *fleet.Table) (*fleet.Table, *openai.Error) {
	if isSkipped(&c.rc.Request.Header) {
		return t, openai.Unavailable(reasons.TableChanged, time.Second)
	}
	var err *openai.Error
	if c.raw, err = c.ReadBody(c.rc, c.entry.maxBody()); err != nil {
		return t, err
	}
	c.arrived = time.Now() // a slow upload takes nothing from the time that the request has
	now := c.entry.config.Table()
	if now != t {
		err = c.identify(now) // the key may have been revoked
	}
	return now, err
}

// mayRun refuses the requests of an account that may have none running.
func (c *call) mayRun() *openai.Error {
	if c.caller.Account.Limits.Concurrent == 0 {
		return openai.NothingMayRun()
	}
	return nil
}

// plan makes the list of colos to try, and watches the client from now on.
func (c *call) plan(t *fleet.Table) *openai.Error {
	if err := c.setDeadlines(); err != nil {
		return err
	}
	queueing, err := c.queueing()
	if err != nil {
		return err
	}
	if c.priority, err = c.readPriority(); err != nil {
		return err
	}
	if c.events, err = c.readEvents(); err != nil {
		return err
	}
	forced := c.header(hop.HeaderForceColo)
	if forced != "" && !c.caller.Account.Admin {
		return openai.InvalidRequest("", "the header %s is for admin accounts only", hop.HeaderForceColo)
	}
	plan := routing.Plan(t, c.model, routing.Request{
		Forced: forced,
		Seed:   rand.Uint64(),
		Full:   func(colo string) bool { return c.entry.observed.wasFull(poolIn{c.model.Pool, colo}, c.arrived) },
	})
	var stops []stop
	for _, colo := range plan {
		if home, ok := homes.Home(c.model.Pool, t.Servers(colo.Name)); ok {
			slots := c.entry.observed.slotsOf(poolIn{c.model.Pool, colo.Name})
			stops = append(stops, stop{Colo: colo, Home: home, slots: slots})
		}
	}
	c.tries = newTries(stops, queueing, c.model.Retry)
	if len(stops) == 0 && len(routing.Plan(t, c.model, routing.Request{Forced: forced, Draining: true})) > 0 {
		c.tries.moved(nil, openai.Unavailable(reasons.Draining, time.Second))
	}
	c.entry.budget.Begin()
	c.budgeted = true
	if err := c.WatchClient(c.rc.Conn()); err != nil {
		c.entry.config.Logger.Error("cannot watch the client", "error", err)
		return openai.Internal()
	}
	return nil
}

// handleResult takes what came of one attempt: true if the answer is to be relayed, else tries knows what follows.
func (c *call) handleResult(at try, answer *peer.Answer, err error) bool {
	e := c.entry
	if err != nil {
		c.failedForward(at, err)
		return false
	}
	if answer.HasLoad {
		e.observed.note(poolIn{c.model.Pool, at.Colo.Name}, answer.Load, time.Now())
	}
	e.observed.reached(at.Colo.Name)
	c.attempts += answer.Attempts
	c.waited += answer.Queued
	if answer.Response != nil {
		c.colo = at.Colo.Name
		return true
	}
	v := answer.Verdict
	e.budget.Charge(v.Retries)
	if v.Number == openai.NumberModelNotFound {
		c.tries.unknown(openai.ModelNotFound(c.asked))
		return false
	}
	switch v.Kind {
	case hop.VerdictOOC:
		c.tries.refused(at, v, answer.Error)
	case hop.VerdictMoved:
		c.tries.moved(at.Colo, answer.Error)
	default:
		c.tries.failed(c.late(answer.Error), v, c.retry)
		return false
	}
	if answer.Attempts > 0 {
		// The colo had a slot, but the engine reported itself full, or the request had failed there before: to go on is to try again.
		c.tries.charge(v, c.retry)
	}
	return false
}

// failedForward takes a forward that ended without an answer.
func (c *call) failedForward(at try, err error) {
	var noVerdict *peer.NoVerdictError
	if errors.As(err, &noVerdict) {
		c.noVerdict(at, noVerdict)
		return
	}
	var failed *transport.ExchangeError
	if !errors.As(err, &failed) {
		return // the context has ended
	}
	c.entry.metrics.ForwardFailure(at.Colo.Name)
	c.entry.config.Logger.Warn("forward failed", "request_id", c.id, "colo", at.Colo.Name, "server", at.Home.Node, "error", err)
	// One that begins to answer was reached, and one that does not may just be slow. What is for want of something of our own
	// says nothing of the colo.
	if failed.Phase != transport.PhaseStream && (!failed.Timeout || failed.Phase == transport.PhaseConnect) &&
		!errors.Is(err, peer.ErrNotSigned) && !netconn.IsLocalShortage(err) {
		c.entry.observed.missed(at.Colo.Name, failed, time.Now())
	}
	switch {
	case failed.Phase == transport.PhaseConnect:
		e := openai.Unavailable(reasons.NoServer, time.Second)
		c.tries.lostServer(e, c.retry)
	case failed.Timeout && time.Now().Before(c.end):
		c.tries.give(c.late(openai.InferenceTimeout(reasons.FirstByteTimeout)))
	case failed.Timeout:
		c.tries.give(openai.InferenceTimeout(reasons.TotalTimeout))
	case failed.Phase == transport.PhaseStream:
		c.tries.give(openai.EngineFailed(reasons.ColoUnreachable))
	default:
		c.tries.lostServer(openai.EngineFailed(reasons.ColoUnreachable), c.retry)
	}
}

// noVerdict takes an answer that is neither an engine's nor carries a verdict.
func (c *call) noVerdict(at try, err *peer.NoVerdictError) {
	c.entry.metrics.ForwardFailure(at.Colo.Name)
	c.entry.config.Logger.Error("colo answered without a verdict", "request_id", c.id, "colo", at.Colo.Name,
		"server", at.Home.Node, "status", err.Status, "error", err.Err)
	c.entry.observed.missed(at.Colo.Name, err.Err, time.Now())
	failure := openai.EngineFailed(reasons.ColoUnreachable)
	if err.Unserved {
		failure = openai.Unavailable(reasons.NoServer, time.Second)
	}
	c.tries.lostServer(failure, c.retry)
}

// late does not blame the engine for a first byte that did not come within the client's own deadline. The colo was given
// less by what is held back, and may round that.
func (c *call) late(e *openai.Error) *openai.Error {
	if e.Number == openai.NumberInferenceTimeout && e.Reason == reasons.FirstByteTimeout && !c.firstBy.IsZero() && time.Now().After(c.firstBy.Add(-2*holdBack)) {
		return openai.OverDeadline()
	}
	return e
}

// retry takes one attempt from the budget.
func (c *call) retry() bool {
	if !c.entry.budget.Take() {
		return false
	}
	c.entry.metrics.Retried()
	return true
}

// recovered answers a panic, which would else end the process.
func (c *call) recovered(panicked any) {
	if panicked == nil {
		return
	}
	c.noteCrash(server.DescribePanic(panicked), string(bytes.TrimSpace(debug.Stack())))
	c.refuse(openai.Internal())
}

// noteCrash ends what a panic has left.
func (c *call) noteCrash(panicked, stack string) {
	if c.answer != nil {
		c.answer.Close()
	}
	c.entry.config.Logger.Error("handler panicked", "request_id", c.id, reasons.Panic, panicked, "stack", stack)
}
