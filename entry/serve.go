package entry

import (
	"errors"
	"math/rand/v2"
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
	if e.serveHealth(rc) || e.servePreflight(rc) {
		return
	}
	c := e.newCall(rc)
	streaming := false
	defer func() {
		if !streaming {
			c.close()
		}
	}()
	defer func() { c.recoverPanic(recover()) }()
	t := e.config.Table()
	c.page = readPage(&rc.Request.Header, t.Origins())
	c.page.setCORS(&rc.Response.Header)
	if err := e.checkHead(&rc.Request.Header, t); err != nil {
		c.refuse(err)
		rc.SetConnectionClose() // a client that sends such a head may have more behind it
		return
	}
	c.readRequestID()
	switch {
	case e.refusing.Load():
		c.refuse(openai.Unavailable(reasons.Draining, time.Second))
		return
	case e.starting():
		c.refuse(openai.Unavailable(reasons.Starting, time.Second))
		return
	}
	var err *openai.Error
	if c.head, err = e.readHead(&rc.Request.Header, t, c.page, c.arrived); err != nil {
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
	if c.wantsQueueEvents && c.attempts.more() {
		c.beginQueueEvents()
		return true
	}
	switch answer := c.tryColos(); {
	case answer != nil:
		return c.relay(answer)
	case c.Context.Err() != nil:
		c.cancelled()
	default:
		c.refuse(c.attempts.clientError())
	}
	return false
}

// tryColos tries one colo after another until one serves the request. It returns nil if none does, or if the request's
// context has ended.
func (c *call) tryColos() *peer.Answer {
	for {
		next, ok := c.attempts.next()
		if !ok {
			return nil
		}
		if !c.firstByteDeadline.IsZero() && time.Until(c.firstByteDeadline) <= reservedForReturn {
			c.attempts.deadlineNear()
			return nil
		}
		answer, err := c.forward(next)
		c.answer = answer
		if c.handleResult(next, answer, err) {
			return answer
		}
		if c.Context.Err() != nil {
			return nil
		}
	}
}

// receive reads the rest of the request and plans where it can go. The head was read with table t.
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
	if err = c.resolveModel(t, c.body.Model); err != nil {
		return err
	}
	if limit := int64(c.model.MaxBody); int64(len(c.raw)) > limit {
		return openai.RequestTooLarge(limit)
	}
	if err = c.body.CheckCounts(openai.Limits{Completions: c.model.MaxCompletions, Inputs: c.model.MaxInputs}, c.model.Name); err != nil {
		return err
	}
	return c.plan(t)
}

// readBody reads the body and returns the table that is in force then: the request uses that one to its end.
func (c *call) readBody(t *fleet.Table) (*fleet.Table, *openai.Error) {
	if bodySkipped(&c.rc.Request.Header) {
		return t, openai.Unavailable(reasons.TableChanged, time.Second)
	}
	var err *openai.Error
	if c.raw, err = c.ReadBody(c.rc, c.entry.maxBody(), c.bodyAccount()); err != nil {
		return t, err
	}
	c.arrived = time.Now() // a slow upload does not count against the request's timeouts
	now := c.entry.config.Table()
	if now == t {
		return t, nil
	}
	if err = c.identify(now); err == nil { // the key may have been revoked
		err = checkMayRun(c.caller.Account)
	}
	return now, err
}

// bodyAccount returns the account whose memory the body takes while it arrives. Clients without a key share one account, and each of
// them has memory by its address.
func (c *call) bodyAccount() string {
	if c.caller.KeyID == "" {
		return ""
	}
	return c.caller.Account.Name
}

// plan lists the colos to try and starts to watch the client.
func (c *call) plan(t *fleet.Table) *openai.Error {
	if err := c.setDeadlines(); err != nil {
		return err
	}
	queueMode, err := c.readQueueMode()
	if err != nil {
		return err
	}
	if c.priority, err = c.readPriority(); err != nil {
		return err
	}
	if c.wantsQueueEvents, err = c.readQueueEvents(); err != nil {
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
	var candidates []candidate
	for _, colo := range plan {
		if home, ok := homes.Home(c.model.Pool, t.Servers(colo.Name)); ok {
			slots := c.entry.observed.slotsIn(poolIn{c.model.Pool, colo.Name})
			candidates = append(candidates, candidate{Colo: colo, Home: home, slots: slots})
		}
	}
	c.attempts = newAttempts(candidates, queueMode, c.model.Retry)
	if len(candidates) == 0 && len(routing.Plan(t, c.model, routing.Request{Forced: forced, Draining: true})) > 0 {
		c.attempts.moved(nil, openai.Unavailable(reasons.Draining, time.Second))
	}
	c.entry.budget.Begin()
	c.countsInBudget = true
	if err := c.WatchClient(c.rc.Conn()); err != nil {
		c.entry.config.Logger.Error("cannot watch the client", "error", err)
		return openai.Internal()
	}
	return nil
}

// handleResult handles the result of one attempt. It reports whether the answer is to be relayed; if not, c.attempts knows what
// follows.
func (c *call) handleResult(at attempt, answer *peer.Answer, err error) bool {
	e := c.entry
	if err != nil {
		c.failedForward(at, err)
		return false
	}
	if answer.HasLoad {
		e.observed.noteLoad(poolIn{c.model.Pool, at.Colo.Name}, answer.Load, time.Now())
	}
	e.observed.noteReached(at.Colo.Name)
	c.engineAttempts += answer.Attempts
	c.waited += answer.Queued
	if answer.Response != nil {
		c.colo = at.Colo.Name
		return true
	}
	v := answer.Verdict
	e.budget.Charge(v.RetriesMade)
	if v.Number == openai.NumberModelNotFound {
		c.attempts.modelUnknown(openai.ModelNotFound(c.askedModel))
		return false
	}
	if v.Number == openai.NumberUnsupportedParameter && v.Reason != "" { // the reason is the name of an engine field
		c.attempts.fail(openai.EngineFieldNotAllowed(v.Reason, c.model.Name))
		return false
	}
	switch v.Kind {
	case hop.VerdictOOC:
		c.attempts.refused(at, v, answer.Error)
	case hop.VerdictMoved:
		c.attempts.moved(at.Colo, answer.Error)
	default:
		c.attempts.failed(c.blameDeadline(answer.Error), v, c.retry)
		return false
	}
	if answer.Attempts > 0 {
		// The request reached an engine in that colo (which reported itself full, or failed), so going on counts as a retry.
		c.attempts.charge(v, c.retry)
	}
	return false
}

// failedForward handles a forward that ended without an answer.
func (c *call) failedForward(at attempt, err error) {
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
	connecting, now := failed.Phase == transport.PhaseConnect, time.Now()
	late := failed.Timeout && !now.Before(c.deadline)
	// A colo that began to answer was reached, and one that timed out after connecting may just be slow. A shortage on this machine is
	// no evidence about the colo, nor is a request that had no time left.
	if failed.Phase != transport.PhaseStream && (!failed.Timeout || connecting && !late) &&
		!errors.Is(err, peer.ErrNotSigned) && !netconn.IsLocalShortage(err) {
		c.entry.observed.noteUnreached(at.Colo.Name, failed, now)
	}
	switch {
	case late:
		c.attempts.fail(openai.InferenceTimeout(reasons.TotalTimeout))
	case connecting:
		c.attempts.notSent(openai.Unavailable(reasons.NoServer, time.Second))
	case failed.Timeout:
		c.attempts.fail(c.blameDeadline(openai.InferenceTimeout(reasons.FirstByteTimeout)))
	case failed.Phase == transport.PhaseStream:
		c.attempts.fail(openai.EngineFailed(reasons.ColoUnreachable))
	default:
		c.attempts.serverLost(openai.EngineFailed(reasons.ColoUnreachable), c.retry)
	}
}

// noVerdict handles an answer that is neither an engine's nor carries a verdict.
func (c *call) noVerdict(at attempt, err *peer.NoVerdictError) {
	if err.Status == fasthttp.StatusRequestHeaderFieldsTooLarge { // with the hop token beside them: the client's error
		c.attempts.fail(openai.HeadersTooLarge(server.MaxHead))
		return
	}
	c.entry.metrics.ForwardFailure(at.Colo.Name)
	c.entry.config.Logger.Error("colo answered without a verdict", "request_id", c.id, "colo", at.Colo.Name,
		"server", at.Home.Node, "status", err.Status, "error", err.Err)
	if !err.Replayed { // a sender between the nodes must not make a colo look unreachable
		c.entry.observed.noteUnreached(at.Colo.Name, err.Err, time.Now())
	}
	failure := openai.EngineFailed(reasons.ColoUnreachable)
	if err.NotRead {
		failure = openai.Unavailable(reasons.NoServer, time.Second)
	}
	c.attempts.serverLost(failure, c.retry)
}

// blameDeadline replaces a first-byte timeout by one that names the client's own deadline, if that has passed. The margin covers what
// is reserved for the way back, twice, since the colo rounds.
func (c *call) blameDeadline(e *openai.Error) *openai.Error {
	if e.Number == openai.NumberInferenceTimeout && e.Reason == reasons.FirstByteTimeout &&
		!c.firstByteDeadline.IsZero() && time.Now().After(c.firstByteDeadline.Add(-2*reservedForReturn)) {
		return openai.OverDeadline()
	}
	return e
}

// retry takes one attempt from the retry budget and reports whether there was one.
func (c *call) retry() bool {
	if !c.entry.budget.Take() {
		return false
	}
	c.entry.metrics.Retried()
	return true
}

// recoverPanic answers a panic, which would otherwise end the process.
func (c *call) recoverPanic(panicked any) {
	if panicked == nil {
		return
	}
	c.crashed(server.DescribePanic(panicked), server.Stack())
	c.refuse(openai.Internal())
}

// crashed closes what a panic has left open, and logs the panic.
func (c *call) crashed(panicked, stack string) {
	if c.answer != nil {
		c.answer.Close()
	}
	c.entry.config.Logger.Error("handler panicked", "request_id", c.id, "panic", panicked, "stack", stack)
}
