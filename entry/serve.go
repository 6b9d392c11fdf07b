package entry

import (
	"math/rand/v2"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/openai"
	"colonnade/reasons"
	"colonnade/routing"
)

// serve answers one client request.
func (e *Entry) serve(rc *fasthttp.RequestCtx) {
	if e.serveHealth(rc) || e.servePreflight(rc) {
		return
	}
	c := e.newCall(rc, rc.Time())
	streaming := false
	defer func() {
		c.captureAnswer(streaming)
		if !streaming {
			c.close()
		}
	}()
	defer func() { c.recoverPanic(recover()) }()
	if t := c.begin(); t != nil {
		streaming = c.infer(t)
	}
}

// begin reads the head of the request and returns the table by which it was read; nil if the request was answered. It is a function of its
// own since a request waits in the frame of its caller.
func (c *call) begin() *fleet.Table {
	e, rc := c.entry, c.rc
	t := e.config.Table()
	c.page = readPage(&rc.Request.Header, t.Origins())
	c.page.setCORS(&rc.Response.Header)
	if err := e.checkHead(&rc.Request.Header, t); err != nil {
		c.refuse(err)
		rc.SetConnectionClose() // a client that sends such a head may have more behind it
		return nil
	}
	c.readRequestID()
	c.beginTrace()
	switch {
	case e.refusing.Load():
		c.refuse(openai.Unavailable(reasons.Draining, time.Second))
		return nil
	case e.starting():
		c.refuse(openai.Unavailable(reasons.Starting, time.Second))
		return nil
	}
	var err *openai.Error
	c.head, err = e.readHead(&rc.Request.Header, t, c.page, c.arrived)
	c.beginCapture()
	if err != nil {
		c.refuse(err)
		return nil
	}
	if c.route.API.AboutModels() {
		c.listModels(t)
		return nil
	}
	return t
}

// infer is the life of an inference request. It reports whether the answer goes on after the handler has returned.
func (c *call) infer(t *fleet.Table) (streaming bool) {
	if err := c.receive(t); err != nil {
		c.refuse(err)
		return false
	}
	c.logBegin()
	if c.wantsQueueEvents && (c.attempts.more() || c.attempts.mayGoOn) {
		c.beginQueueEvents()
		return true
	}
	switch answer := c.tryColos(); {
	case answer != nil:
		return c.relay(answer)
	case c.Context.Err() != nil:
		c.cancelled()
	default:
		c.refuse(c.clientError())
	}
	return false
}

// tryColos tries one colo after another until one serves the request, with one model after another if there are fallbacks. It returns nil if
// none does, or if the request's context has ended.
func (c *call) tryColos() *peer.Answer {
	for {
		answer := c.walkPlan()
		c.noteFlood(answer)
		if answer != nil || !c.nextModel() {
			return answer
		}
	}
}

func (c *call) walkPlan() *peer.Answer {
	var next attempt
	for tooFar := false; c.nextInTime(&next, &tooFar); {
		answer, err := c.forward(&next)
		c.answer = answer
		if c.handleResult(&next, answer, err) {
			return answer
		}
		if c.Context.Err() != nil {
			return nil
		}
	}
	return nil
}

// nextInTime sets the next attempt, of those for which there is time, and reports whether there is one. tooFar says whether colos were left
// out. It is a function of its own since a request waits in the frame of its caller.
func (c *call) nextInTime(to *attempt, tooFar *bool) bool {
	for {
		next, ok := c.attempts.next()
		if !ok {
			if *tooFar && c.attempts.refusal == nil {
				c.attempts.deadlineNear()
			}
			return false
		}
		switch left := c.firstByteLeft(); {
		case left <= reservedForReturn:
			c.attempts.deadlineNear()
			return false
		case !c.firstByteDeadline.IsZero() && left <= c.reserved(next.Colo):
			*tooFar = true                        // and one that follows may be nearer
			c.entry.observed.roundTrip(next.Colo) // which has it pinged: it may not be so far any more
			continue
		}
		if c.entry.sender.Watcher.IsSilent(peerOf(next.server())) && c.attempts.hasAnotherServer(&next) {
			c.attempts.notConnected(next, openai.Unavailable(reasons.NoServer, time.Second))
			c.noteLeft(next, time.Now())
			continue
		}
		next.onward = c.attempts.onward(next, c.entry.budget.Remaining())
		*to = next
		return true
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
	if err = c.body.Peek(c.route, c.contentType(), c.raw); err != nil {
		return err
	}
	if c.body.Stream && !c.rc.Request.Header.IsHTTP11() {
		return openai.InvalidRequest("stream", "streams need HTTP/1.1; of a proxy in between, set its upstream protocol (nginx: proxy_http_version 1.1)")
	}
	if err = c.resolveModel(t, c.body.Model); err != nil {
		return err
	}
	if err = c.checkShape(c.model); err != nil {
		return err
	}
	if err = c.limitOutput(); err != nil {
		return err
	}
	if err = c.checkContent(c.model); err != nil {
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
	waits := !server.BodyArrived(&c.rc.Request.Header)
	if c.raw, err = c.ReadBody(c.rc, c.entry.maxBody(), c.bodyAccount()); err != nil {
		return t, err
	}
	c.captureBody()
	if waits {
		c.arrived = time.Now() // a slow upload does not count against the request's timeouts
	}
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
	forced, err := c.readForcedColo(t)
	if err != nil {
		return err
	}
	if err := c.planFallbacks(t, forced); err != nil {
		return err
	}
	if err := c.takeLimits(t); err != nil {
		return err
	}
	c.startAttempts(t, forced, queueMode, rand.Uint64())
	if c.attempts.ofEntry && c.fallbacks == nil {
		return c.attempts.refusal
	}
	c.beginFallbacks()
	if err := c.WatchClient(c.rc.Conn()); err != nil {
		c.entry.config.Logger.Error("cannot watch the client", "error", err)
		return openai.Internal()
	}
	return nil
}

// startAttempts plans the request for queueMode, and for the colo forced if that is not empty. The seed decides all that is random.
func (c *call) startAttempts(t *fleet.Table, forced string, queueMode queueMode, seed uint64) {
	if c.attempts = c.refuseFlood(forced, queueMode, float64(seed)/(1<<64)); c.attempts != nil {
		return
	}
	candidates := c.candidates(t, routing.Request{
		Forced: forced, Seed: seed, Seen: c.seen, RoundTrip: c.entry.observed.roundTrip,
	})
	rank := func(colo string) []*fleet.Server {
		c.table = c.entry.config.Table() // servers may join while the request is under way
		return c.entry.ranking.of(c.table, poolIn{c.model.Pool, colo})
	}
	c.attempts, c.table = newAttempts(candidates, rank, queueMode, c.model.Retry), t
	c.attempts.onwardRule = c.onwardRule()
	if len(candidates) == 0 && len(c.entry.planner.Plan(nil, t, c.model, routing.Request{Forced: forced, Draining: true})) > 0 {
		c.attempts.noteRefusal(nil, openai.Unavailable(reasons.Draining, time.Second), false)
	} else if len(candidates) == 0 && forced == "" && c.entry.hasServer() {
		c.attempts.noteRefusal(nil, openai.Unavailable(reasons.NoRoute, time.Second), false)
	}
	if !c.countsInBudget {
		c.entry.budget.Begin()
		c.countsInBudget = true
	}
}

// seen returns what is known of the request's pool in a colo. It is a routing.Request.Seen.
func (c *call) seen(colo *fleet.Colo) routing.Seen {
	return c.entry.observed.seen(poolIn{c.model.Pool, colo.Name}, c.arrived)
}

// candidates returns the colos of the request's plan.
func (c *call) candidates(t *fleet.Table, r routing.Request) []candidate {
	buffer := c.entry.plans.Get().(*[]routing.Stop)
	defer c.entry.plans.Put(buffer)
	plan := c.entry.planner.Plan((*buffer)[:0], t, c.model, r)
	*buffer = plan
	candidates := make([]candidate, len(plan))
	for i, stop := range plan {
		candidates[i].Colo = stop.Colo
		if i <= c.model.Retry.OutOfCapacity { // the shares in the return of a refused client are those of the colos that it asks
			candidates[i].slots = c.entry.observed.slotsIn(poolIn{c.model.Pool, stop.Colo.Name})
		}
	}
	return candidates
}

// handleResult handles the result of one attempt. It reports whether the answer is to be relayed; if not, c.attempts knows what
// follows.
func (c *call) handleResult(to *attempt, answer *peer.Answer, err error) bool {
	at := *to
	if err != nil {
		c.failedForward(at, err)
		return false
	}
	c.entry.observed.noteResponsive(at.server())
	if c.entry.observed.noteAnswer(at.server(), answer, c.firstByte) {
		c.entry.logReached(at.server())
	}
	believed := 0
	for _, v := range answer.Visits {
		if v.Colo != at.Colo.Name && v.Verdict.Kind == hop.VerdictUnread {
			if at.hasStop(v.Colo) {
				c.noteQueued(v)
			}
			continue // this entry may have a way there, so the colo stays in the plan
		}
		if visited, ok := c.attempts.visited(at, v.Colo, v.Node); ok {
			believed++
			c.noteVisit(v.Colo, v.Node)
			c.handleVisit(visited, v, c.blameDeadline(c.reserved(at.Colo)+at.reservedFrom(v.Colo), peer.ErrorOf(v.Verdict)))
		}
	}
	switch {
	case answer.Response != nil:
		c.served(at, answer)
		return true
	case believed == 0:
		c.handleVisit(at, answer.Visit(at.Colo.Name, at.server().Node), c.blameDeadline(c.reserved(at.Colo), answer.Error))
	}
	return false
}

// served notes the answer of the colo that serves the request.
func (c *call) served(at attempt, answer *peer.Answer) {
	if len(answer.Visits) > 0 {
		colo, node := hop.SplitNodeName(answer.ServedBy)
		if visited, ok := c.attempts.visited(at, colo, node); ok {
			at = visited
			c.noteVisit(colo, node)
		}
	}
	c.servedBy = at.Colo
	c.entry.budget.Charge(answer.RetriesMade)
	c.noteAnswer(answer.Visit(at.Colo.Name, at.server().Node))
}

// noteAnswer notes what a server reports about the request and its pool, whether it has served the request or not.
func (c *call) noteAnswer(v hop.Visit) {
	if v.HasLoad {
		c.entry.observed.noteLoad(poolIn{c.model.Pool, v.Colo}, v.Load, c.firstByte)
	}
	c.engineAttempts += v.Attempts
	c.noteQueued(v)
}

// noteQueued notes that the request has waited in the queue of a server.
func (c *call) noteQueued(v hop.Visit) {
	c.waited += v.Queued
	c.hadPlace = c.hadPlace || v.Verdict.Waited
}

// noteVisit adds a server that another one has asked to the path of the request; the one that this entry has asked is there.
func (c *call) noteVisit(colo, node string) {
	if name := hop.NodeName(colo, node); len(c.path) == 0 || c.path[len(c.path)-1] != name {
		c.path = append(c.path, name)
	}
}

// handleVisit handles the verdict of a server that has not served the request, whether this entry has asked it or another server has on its
// behalf. e is the error for the client if no other server serves the request.
func (c *call) handleVisit(at attempt, visit hop.Visit, e *openai.Error) {
	c.noteAnswer(visit)
	v := visit.Verdict
	c.entry.budget.Charge(v.RetriesMade)
	if v.Number == openai.NumberModelNotFound {
		c.attempts.modelUnknown(openai.ModelNotFound(c.askedModel))
		return
	}
	if v.Number == openai.NumberUnsupportedParameter && v.Reason != "" { // the reason is the name of an engine field
		c.attempts.fail(openai.EngineFieldNotAllowed(v.Reason, c.model.Name))
		return
	}
	if v.Number == openai.NumberPathNotServed {
		c.attempts.notSent(openai.PathNotServed(c.model.Name, string(c.model.Type), c.route.Path, openai.Engines(v.Engines)))
		return
	}
	switch v.Kind {
	case hop.VerdictOOC:
		c.attempts.refused(at, &visit, e)
	case hop.VerdictMoved:
		at.line = at.line.knownUpTo(v.Revision).noteDraining(v.Drains)
		c.attempts.moved(at, c.serverNamed(at.Colo.Name, v), v.Waited, e)
	case hop.VerdictUnread:
		c.attempts.notConnected(at, e)
		return
	case hop.VerdictLost:
		at.rejoin = at.rejoin || v.Waited
		c.attempts.serverLost(at, e, c.retry)
		return
	default:
		c.attempts.failed(e, v, c.retry)
		return
	}
	if visit.Attempts > 0 {
		// The request reached an engine in that colo (which reported itself full, or failed), so going on counts as a retry.
		c.attempts.charge(v, c.retry)
	}
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
