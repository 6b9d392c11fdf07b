package colo

import (
	"context"
	"errors"
	"slices"
	"time"

	"colonnade/admission"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/lazyctx"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// Do carries one request through the colo: a permit, an engine, and its answer up to the first byte; or the verdict that says why
// not. It is a [peer.Func] for callers in this process; the peer listener is an adapter around the same function.
func (s *Server) Do(ctx context.Context, r *peer.Request) (*peer.Answer, error) {
	in := s.takeCall()
	if in == nil {
		c := &call{server: s, request: r, token: &r.Token}
		c.lookUp(s.applied.Load())
		return c.answerRefusal(refusalWithoutPool(permits.Draining))
	}
	var link lazyctx.Hook
	link.Attach(ctx, func() { in.Cancel(context.Cause(ctx)) })
	end := func() {
		link.Stop()
		in.Close()
	}
	relayed := false
	defer func() {
		if !relayed { // after a panic, too
			end()
		}
	}()
	a, err := s.newCall(in, r).do()
	if err != nil || a.OnClose == nil {
		return a, err
	}
	onClose := a.OnClose
	a.OnClose = func() {
		defer end()
		onClose()
	}
	relayed = true
	return a, nil
}

// takeCall begins a request, or returns nil once the server is shutting down.
func (s *Server) takeCall() *server.Request {
	s.calls.RLock()
	defer s.calls.RUnlock()
	if s.closed {
		return nil
	}
	return s.inflight.Begin()
}

// do is the life of a request in a colo, up to its answer's first byte; the hooks of the answer are the rest. It returns [permits.ErrWaits] for a
// detached request that has to wait; the caller calls it again after the callback of onResolved.
func (c *call) do() (a *peer.Answer, err error) {
	defer func() {
		if (a == nil || a.OnClose == nil) && !errors.Is(err, permits.ErrWaits) {
			c.close()
		}
	}()
	defer func() {
		if with := recover(); with != nil {
			a, err = c.crashed(with), nil
		}
	}()
	if a, err = c.serve(); err == nil && c.mayForward(a) {
		return c.forwardToNext(a)
	}
	return a, err
}

// serve carries the request to engines of this colo, until one answers or the request is refused.
func (c *call) serve() (*peer.Answer, error) {
	if !c.waits {
		if refused := c.resolve(); refused != nil {
			return c.answerRefusal(refused)
		}
	}
	for {
		if !c.waits {
			if refused := c.reachHome(); refused != nil {
				return c.answerRefusal(refused)
			}
		}
		if err := c.acquire(); err != nil {
			if c.waits {
				return nil, err
			}
			if c.reroute(err) || c.mayAskAgain(err) {
				continue
			}
			return c.answerAcquireError(err)
		}
		if again, a, err := c.attempt(); !again {
			return a, err
		}
	}
}

// attempt sends the request to the endpoint of its permit. It reports whether the request has to ask for another permit; if not, the answer
// is that of [call.serve]. It is a function of its own since a request waits in the frame of its caller.
func (c *call) attempt() (again bool, a *peer.Answer, err error) {
	if refused := c.translate(); refused != nil {
		return false, c.answerUntranslated(refused), nil
	}
	if refused := c.checkEngineFields(c.grant.Endpoint); refused != nil {
		c.withdrawRefused(refused)
		a, err = c.answerRefusal(refused)
		return false, a, err
	}
	response, err := c.dispatch()
	if errors.Is(err, transport.ErrNotSent) {
		c.withdraw()
		return true, nil, nil
	}
	c.response = response
	next := c.classify(response, err)
	if next.relay {
		return false, c.answer(response), nil
	}
	if response != nil {
		response.Close()
	}
	c.releaseUnserved()
	c.logFailed(&next)
	failure := next.refusal
	c.lastFailure = &failure
	if !next.again || !next.free && !c.server.budget.Take() {
		if next.full {
			failure = *c.engineFull()
		}
		a, err = c.answerRefusal(&failure)
		return false, a, err
	}
	if !next.free {
		c.retries--
	}
	c.server.metrics.Retried(c.pool.Name())
	return true, nil, nil
}

// resolve finds the model and its pool, and what the body is.
func (c *call) resolve() *refusal {
	s := c.server
	if loop := c.loopReason(); loop != "" {
		s.config.Logger.Error("request goes no further", "request_id", c.token.RequestID, "reason", loop, "visited", c.token.Visited)
		return &refusal{err: openai.Unavailable(loop, time.Second), verdict: hop.Verdict{Kind: hop.VerdictError, Reason: loop, Final: true}}
	}
	if !c.lookUp(s.applied.Load()) {
		if refused := c.inTime(c.find); refused != nil {
			return refused
		}
	}
	if c.request.Route.API == openai.Realtime {
		if s.Draining() {
			return refusalWithoutPool(permits.Draining) // the session would last longer than this server
		}
		return nil
	}
	if d := c.request.Described; d != nil {
		c.body = *d
	} else if e := c.body.Peek(c.request.Route, c.request.Field("Content-Type"), c.raw); e != nil {
		return &refusal{err: e, verdict: hop.Verdict{Kind: hop.VerdictError, Final: true}}
	}
	if c.request.Route.API == openai.Generate && c.model.Adapter != "" {
		return c.refusalFor(admission.Lack{Path: c.request.Route.Path}, 0) // the engine would answer with the base model, since the path names none
	}
	endpoints := c.table.table.Endpoints(s.config.Colo, c.pool.Name())
	c.checkTranslation(endpoints)
	return c.checkEngineFields(endpoints...)
}

// loopReason returns the reason why a request has come too far, or nothing. It has visited this colo if it has visited any server of it; an
// older sender names servers without their colos. Earlier attempts of the entry here are no visits.
func (c *call) loopReason() string {
	own := c.server.config
	visitedUs := func(name string) bool {
		colo, node := hop.SplitNodeName(name)
		return colo == own.Colo || colo == "" && node == own.Node
	}
	switch {
	case slices.ContainsFunc(c.token.Visited, visitedUs):
		return reasons.RoutingLoop
	case c.token.HopsLeft < 0:
		return reasons.HopLimit
	}
	return ""
}

// errLate is the cause of the end of a request whose time ran out while its model or its home was awaited.
var errLate = errors.New("request has run out of time")

// inTime calls await with a context that ends with the time budget of the request.
func (c *call) inTime(await func(context.Context) *refusal) *refusal {
	whole, end, reason := c.Context, c.deadline, reasons.TotalTimeout
	if !c.firstByteDeadline.IsZero() && c.firstByteDeadline.Before(c.deadline) {
		end, reason = c.firstByteDeadline, reasons.FirstByteTimeout
	}
	within, cancel := context.WithDeadlineCause(whole, end, errLate)
	defer cancel()
	refused := await(within)
	if refused != nil && errors.Is(context.Cause(within), errLate) {
		return timedOut(reason)
	}
	return refused
}

// cancelled returns the refusal of a request whose context has ended before it could ask for a permit.
func (c *call) cancelled(ctx context.Context) *refusal {
	if cause := context.Cause(ctx); !errors.Is(cause, errDrained) {
		return &refusal{gone: cause}
	}
	return refusalWithoutPool(permits.Draining)
}

// answer returns an engine's response. The permit of a whole response is released here, and its end logged; otherwise the hooks do
// that.
func (c *call) answer(response *transport.Response) *peer.Answer {
	a := c.newAnswer(response)
	if response.Upgraded() {
		a.Session, a.OnClose = c.session(response), c.close
		return a
	}
	if openai.ClassifyStatus(response.Status()) == openai.ClientError {
		a.Response = c.clientError(response)
		return a
	}
	a.EndUnknown = c.endUnknown
	if body, whole := response.Body(); whole {
		if c.translated != nil {
			body = c.translated.answer
			a.Response = transport.NewAnswer(c.request.Route.API, response.Status(), body)
		}
		c.releaseAt(c.firstByte)
		c.logWhole(response.Status(), body)
		return a
	}
	a.OnChunk = func() { c.charge(response) }
	a.Backlogs = &c.server.backlogs
	a.OnExchangeEnd = func(blocked time.Duration) {
		c.blocked = blocked
		c.served(response)
	}
	a.OnOutcome = func(end relay.Outcome, blocked time.Duration) {
		c.blocked = blocked
		c.ended(response, end)
	}
	a.OnClose = c.close
	return a
}

func (c *call) newAnswer(response *transport.Response) *peer.Answer {
	a := &c.answered
	a.Response, a.Queued, a.Attempts, a.ServedBy = response, c.queued, c.attempts, c.server.name
	a.RetriesMade = max(c.attemptsSent()-1, 0)
	if c.request.Field(hop.HeaderEndpointReason) != "" {
		a.EndpointReason = c.endpointReason()
	}
	a.Load, a.HasLoad = c.load()
	return a
}

// clientError returns the engine's error as JSON, also if the engine sent it in the first event of a stream, or in a
// body too long to be held.
func (c *call) clientError(response *transport.Response) *transport.Response {
	response.Close()
	c.releaseUnserved()
	body := openai.WrapClientError(c.dialect(), response.Status(), response.ErrorBody(), c.token.RequestID)
	c.logWhole(response.Status(), body)
	return transport.NewResponse(response.Status(), "application/json", body)
}

// served releases the permit of an answer whose engine has said everything. The rest, which the client has yet to take, needs no slot, and the engine
// does not answer for it.
func (c *call) served(response *transport.Response) {
	c.servedAhead = true
	c.succeeded()
	c.usage = usageOfStream(response, true)
	c.release()
}

// ended records the end of an answer that was relayed as it came. Unless the exchange with the engine continues, the
// permit is released before the event is written, since a disk may stall.
func (c *call) ended(response *transport.Response, end relay.Outcome) {
	if c.servedAhead {
		c.logStream(response, end)
		return
	}
	switch {
	case end.Kind == relay.OutcomeCompleted:
		c.succeeded()
	case end.Kind == relay.OutcomeEngineError || end.Reason == reasons.IdleTimeout:
		// But not for a request that took all its time: the client may have been slow.
		c.pool.Failed(c.grant.Endpoint, end.Reason)
	}
	if end.Kind != relay.OutcomeCompleted && end.Kind != relay.OutcomeEngineError {
		c.gaveUp()
	}
	c.usage = usageOfStream(response, end.Kind == relay.OutcomeCompleted)
	if response.Done() {
		c.release()
	}
	c.logStream(response, end)
}

// load returns the load of the request's pool, once the pool is known. Only the server that is the home of a pool knows its load.
func (c *call) load() (hop.Load, bool) {
	if c.pool == nil || !c.server.home(c.pool.Name()).Here {
		return hop.Load{}, false
	}
	l := c.pool.Load()
	load := hop.Load{Free: l.Free, Held: l.Held, Limit: l.Limit, Queued: l.Queued, Expected: l.Expected, Known: l.Known}
	if c.request.Route.DialectByKind() {
		load.Engines = uint32(c.engines())
	}
	return load, true
}

// answerRefusal returns the answer to a request that was not served. A refusal without a verdict means that the context has
// ended.
func (c *call) answerRefusal(r *refusal) (*peer.Answer, error) {
	if r.gone != nil {
		return nil, r.gone
	}
	a := &peer.Answer{Error: r.err, Verdict: r.verdict, Queued: c.queued, Attempts: c.attempts}
	a.Load, a.HasLoad = c.load()
	if a.Verdict.Kind == hop.VerdictMoved {
		c.addHome(&a.Verdict)
	}
	a.Verdict.Number, a.Verdict.EndpointsFailed = r.err.Number, c.endpointsFailed
	sent := c.attemptsSent()
	a.Verdict.RetriesMade, a.Verdict.Unsent = max(sent-1, 0), c.attempts > 0 && sent == 0
	return a, nil
}

// attemptsSent returns the number of attempts with which the request has reached an engine that has what it needs.
func (c *call) attemptsSent() int { return c.attempts - c.withdrawn - c.unsent - c.unserved }

// answerAcquireError returns the answer to a request that got no permit.
func (c *call) answerAcquireError(err error) (*peer.Answer, error) {
	var full *permits.Refusal
	if errors.As(err, &full) && full.Reason == permits.NoEndpoint && c.attemptsSent() == 0 {
		if refused := c.lackedByAll(); refused != nil {
			return c.answerRefusal(refused)
		}
	}
	switch {
	case errors.As(err, &full) && full.Reason == permits.NoEndpoint && c.lastFailure != nil:
		return c.answerRefusal(c.lastFailure) // no endpoint is left that has not failed this request: that is why
	case full != nil && full.Reason == permits.Moved:
		return c.answerRefusal(c.moved())
	case full != nil:
		return c.answerRefusal(outOfCapacity(full))
	case errors.Is(err, errDrained):
		return c.answerRefusal(refusalWithoutPool(permits.Draining))
	}
	return nil, err // the context has ended
}

// errPanicked is the cause of the end of a request whose handler panicked.
var errPanicked = errors.New("handler panicked")

// crashed ends a request after a panic.
func (c *call) crashed(panicked any) *peer.Answer {
	c.Cancel(errPanicked)
	if c.response != nil {
		c.response.Close()
	}
	c.release()
	c.server.config.Logger.Error("handler panicked", "request_id", c.token.RequestID, "panic", server.DescribePanic(panicked), "stack", server.Stack())
	c.logCrash()
	return &peer.Answer{Error: openai.Internal(), Verdict: hop.Verdict{Kind: hop.VerdictError, Final: true}, Attempts: c.attempts}
}
