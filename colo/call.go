package colo

import (
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"colonnade/admission"
	"colonnade/analytics"
	"colonnade/balance"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
	"colonnade/tracing"
)

// call is one request in flight, from Do to its answer's end, which for a stream comes after Do has returned. One goroutine uses it at
// a time.
type call struct {
	*server.Request // its context ends with the cause when the client has gone, or the request is cancelled
	server          *Server
	request         *peer.Request

	// From the request.
	token             *hop.Token // the request's; not changed
	raw               []byte     // the body as received
	arrived           time.Time
	firstByteDeadline time.Time // the client's own deadline for the first byte; zero = none
	deadline          time.Time // of the whole request

	// From resolve on.
	model *fleet.Model
	pool  *admission.Pool
	table *appliedTable // by which the pool was chosen
	body  openai.Body   // empty for a WebSocket
	// Endpoints that need the request translated must not get it: others of the pool pass it.
	untranslatable bool

	// Of its home.
	standIn      bool      // it may ask here for a permit since the home did not answer its sender
	homeAnswers  bool      // though its token says otherwise
	hadPlace     bool      // it had a place in the queue, which the pool took back since its home is elsewhere
	refusedSince time.Time // by its pool, though this server is the home; zero = never

	// Of all attempts.
	balance                *balance.Request // nil = the policy of the pool needs nothing, or it was not made yet
	promptBytes            int              // of the prompt, if it was read for the index and is not too long; else 0
	wanted                 permits.Request  // of the permit last asked for; here, since the stack of a request that waits should be small
	queued                 time.Duration
	queueLen               int               // requests waiting in the pool at arrival
	failedURLs             []string          // URLs of endpoints that failed this request
	attempts               int               // at engines of this colo
	unsent                 int               // attempts of which nothing was sent, since no connection could be made
	unserved               int               // attempts at engines without the model or the path
	withdrawn              int               // attempts whose permit expired before the request was sent
	retries                int               // further attempts allowed
	endpointsFailed        int               // after this request was sent to them
	misconfiguredEndpoints []*fleet.Endpoint // refused the request; the request may be at fault
	lastFailure            *refusal          // why the last attempt failed

	// Of the attempt under way.
	grant          admission.Grant
	asked          time.Time // when it asked for the permit
	granted        time.Time
	releasedAt     time.Time // when its permit was released; zero = not yet
	sent           time.Time
	firstByte      time.Time
	eventID        string              // of the permit
	response       *transport.Response // the engine's
	translated     *translated         // to another path of the engine; nil = the request passes
	usage          tokenUsage          // of the response
	blocked        time.Duration       // how long the client has blocked the response
	answered       peer.Answer         // by newAnswer; here, since nearly each request needs it
	held           bool                // grant must be released
	clientDeadline bool                // the client's deadline is earlier than the model's first-byte timeout
	beginLogged    bool                // an end event must follow
	waits          bool                // the last acquire has returned ErrWaits
	endUnknown     bool                // nothing but the end of the engine's connection ends the response
	servedAhead    bool                // the engine has said everything before the client has taken it

	internal bool // external endpoints must not get it
	untraced bool // this node traces, and the entry has passed on nothing, so the engine must not record the request either
	closed   bool
	detached bool // its exchange may be suspended while it waits

	forward *forward       // to another colo; nil = none
	trace   *tracing.Trace // nil = nothing is recorded
}

// newCall begins a request; close must follow.
func (s *Server) newCall(in *server.Request, r *peer.Request) *call {
	s.budget.Begin()
	now := time.Now()
	c := &call{
		Request: in, server: s, request: r, token: &r.Token, raw: r.Body,
		arrived: now, deadline: now.Add(time.Duration(r.Token.Total)), retries: r.Token.RetriesLeft, endpointsFailed: r.Token.EndpointsFailed,
	}
	if r.Token.FirstByte > 0 {
		c.firstByteDeadline = now.Add(time.Duration(r.Token.FirstByte))
	}
	c.internal = r.Field(hop.HeaderInternal) != ""
	c.continueTrace()
	return c
}

// close releases everything that the request holds; further calls do nothing.
func (c *call) close() {
	if c.closed {
		return
	}
	c.closed = true
	defer c.server.budget.End() // also if logging panics
	c.release()
	c.logCrash()
	c.logForwardCrash()
}

// withdraw gives back a permit that expired before it was used. The request may wait for another.
func (c *call) withdraw() {
	c.withdrawn++
	c.held = false
	c.grant.Cancel()
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = analytics.OutcomeMoved, reasons.GrantExpired, true
	c.log(&e)
}

// release releases the permit. The exchange with the engine must be over.
func (c *call) release() {
	if c.held {
		c.releaseAt(time.Now())
	}
}

// releaseAt is release for a request whose exchange was over at a time, a moment ago.
func (c *call) releaseAt(end time.Time) {
	if c.held {
		c.held, c.releasedAt = false, end
		c.grant.EndedAt(c.releasedAt)
		c.grant.BlockedOnClient(c.blocked)
		c.grant.ReleaseUsed(c.costOf(c.usage))
		c.reportPrompt()
	}
}

// releaseUnserved releases the permit of an attempt of which nothing was relayed.
func (c *call) releaseUnserved() {
	if c.held {
		c.held = false
		c.grant.ReleaseUnserved()
	}
}

// gaveUp notes that the attempt ends before the engine's answer does, because the client has left or the time has run out.
func (c *call) gaveUp() {
	if c.held {
		c.grant.GaveUp()
	}
}

// need returns what the request needs of an endpoint.
func (c *call) need() admission.Need {
	return admission.Need{Model: c.model.Name, Path: c.request.Route.Path, Untranslated: c.untranslatable, Internal: c.internal}
}

// permitRequest returns the request for a permit that is asked for now.
func (c *call) permitRequest(now time.Time) permits.Request {
	queue := c.pool.Document().Queue
	r := permits.Request{
		Account:           c.token.Account,
		Weight:            float64(c.token.Weight),
		Band:              band(c.token.Priority),
		Cost:              c.estimateInputCost(),
		Output:            c.price().Of(0, 0, float64(c.body.MaxTokens)*c.body.Outputs()),
		Outputs:           c.body.Outputs(),
		Bytes:             int64(len(c.raw)),
		Concurrent:        c.token.Concurrent,
		MaxExpected:       -1,
		ReturnProbability: c.token.ReturnProbability,
		JitterFraction:    jitterFraction(c.token.RequestID),
		Deadline:          c.pool.LatestStart(now, earlier(c.firstByteDeadline, c.deadline), c.work()),
		Arrived:           c.arrived.Add(-time.Duration(c.token.Waited)),
		Now:               now,
		Rejoin:            c.keepsPlace(),
		Detached:          c.detached,
		StandIn:           c.standIn,
		Avoid:             c.failedURLs,
		Excluded:          c.pool.Excluded(c.need()),
		Balance:           c.balanceRequest(),
	}
	switch c.token.Wait {
	case hop.WaitFull:
		r.MaxWait = queue.MaxWait.Std() - time.Duration(c.token.Waited) - c.queued
	case hop.WaitSpill:
		r.MaxExpected = max(queue.SpillWait.Std(), time.Duration(c.token.WaitBelow))
		// If the expectation proves wrong, the next colo is better than a long wait here.
		r.MaxWait = min(4*r.MaxExpected, queue.MaxWait.Std()-time.Duration(c.token.Waited)-c.queued)
		if c.attempts > 0 { // the expected wait is not checked for it
			r.MaxWait = min(r.MaxWait, r.MaxExpected)
		}
	}
	if report := c.request.Progress; report != nil {
		r.Progress = func(p permits.Progress) { report(hop.Progress(p)) }
	}
	return r
}

// jitterFraction is the same in all colos that a request asks. Its client gets the smallest Retry-After of theirs, which must not be
// the one that was jittered most.
func jitterFraction(id string) float64 {
	return float64(xxhash.Sum64String(id)>>11) / (1 << 53)
}

// acquire gets a permit. The error is a [permits.Refusal] or the cause of the context's end. A detached request that has to wait gets [permits.ErrWaits]. Then
// c.waits is true, and the next call of acquire returns the result.
func (c *call) acquire() error {
	if !c.waits {
		c.setWanted(false)
	}
	err := c.acquireWanted()
	for err == nil && !c.pool.Has(c.grant.Endpoint, c.need()) { // which another request has learned meanwhile
		c.queued += c.grant.Queued()
		c.traceQueue(nil)
		c.grant.Cancel()
		c.setWanted(true)
		err = c.acquireWanted()
	}
	if c.waits = errors.Is(err, permits.ErrWaits); c.waits {
		return err
	}
	if err != nil {
		var refused *permits.Refusal
		if !errors.As(err, &refused) || refused.Waited { // to be refused at once takes no time in a queue
			c.queued += time.Since(c.asked)
			c.traceQueue(err)
		}
		return c.refused(err)
	}
	c.held, c.granted, c.releasedAt = true, c.asked, time.Time{}
	if c.grant.Queued() > 0 {
		c.granted = time.Now()
	}
	c.queued += c.grant.Queued()
	if c.attempts == 0 {
		c.queueLen = c.grant.QueueLenAtArrival()
	}
	c.traceQueue(nil)
	c.attempts++
	c.trace.BeginAttempt()
	c.logBegin() // first: whatever happens from here on, an end event must follow
	c.server.metrics.QueueWait(c.pool.Name(), c.grant.Queued())
	return nil
}

// onResolved calls wake when the wait of a detached request is over.
func (c *call) onResolved(wake func()) { c.pool.OnResolved(&c.wanted, wake) }

// setWanted sets the request for the next permit.
//
//go:noinline
func (c *call) setWanted(again bool) {
	c.asked = time.Now()
	c.wanted = c.permitRequest(c.asked)
	c.wanted.Rejoin = c.wanted.Rejoin || again
}

func (c *call) acquireWanted() error {
	var grant admission.Grant
	var err error
	if c.request.Route.Free() {
		grant, err = c.pool.AcquireFree(c.Context, &c.wanted)
	} else {
		grant, err = c.pool.Acquire(c.Context, &c.wanted)
	}
	if err == nil {
		c.grant = grant
	}
	return err
}

// refused notes whether a request that was refused has had a place in the queue. It changes the reason busy into queue_timeout for one
// that may not wait because its time for waiting is used up.
func (c *call) refused(err error) error {
	var refused *permits.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	c.hadPlace = c.hadPlace || refused.Waited && (refused.Reason == permits.Moved || refused.Reason == permits.Draining)
	if refused.Reason == permits.Busy && c.token.Wait == hop.WaitFull && c.wanted.MaxWait <= 0 && c.pool.Document().Queue.MaxWait > 0 {
		late := *refused
		late.Reason = permits.QueueTimeout
		return &late
	}
	return err
}

// dispatch sends the request to the granted endpoint.
func (c *call) dispatch() (*transport.Response, error) {
	e := c.grant.Endpoint
	target, err := c.table.target(e.URL)
	if err != nil {
		return nil, &transport.ExchangeError{Phase: transport.PhaseConnect, Err: err}
	}
	fields := c.server.fields.get()
	defer c.server.fields.put(fields) // the transport has sent them, or never will
	if *fields, err = c.appendFields(*fields, e); err != nil {
		return nil, err
	}
	edit := openai.Edit{Model: e.NameOf(c.model), AskUsage: e.Usage == fleet.UsageAsk, MaxTokens: openai.ReadsMaxTokens(e.Engine)}
	r := transport.Request{
		Target:  target,
		Method:  "POST",
		Path:    c.path(e),
		Fields:  *fields,
		Account: c.token.Account,
		// Much time may have passed since the grant: a disk may have stalled, a connect may have been slow, the process may have been stopped.
		Precondition:   c.mayUseGrant,
		ConnectTimeout: c.model.Timeouts.Connect.Std(),
		IdleTimeout:    c.idle(),
		Deadline:       c.deadline,
		Linger:         Linger,
		Tick:           c.request.Tick,
		Received:       c.grant.Received(),
	}
	read := transport.ReadOptions{
		API: c.request.Route.API, Dialect: c.request.Route.Dialect, StripUsage: edit.AskUsage && !c.body.IncludeUsage && !c.token.KeepUsage, TrackUsage: true,
		AnswerModel: c.request.AnswerModel, Parts: c.body.StreamParts(),
	}
	switch {
	case c.request.Handshake != nil:
		c.toHandshake(&r, edit.Model)
	case c.translated != nil:
		r.Body = *c.translated.body
		c.translated.readBy(&read, c.token.RequestID)
		defer c.forgetTranslated() // as above
	default:
		var memory *[]byte
		r.Body, memory = c.server.edited.apply(&c.body, c.raw, edit)
		defer c.server.edited.put(memory) // as above
	}
	if c.body.Stream {
		r.FirstByteTimeout = c.model.Timeouts.FirstByte.Std()
	}
	if !c.firstByteDeadline.IsZero() {
		if left := time.Until(c.firstByteDeadline); r.FirstByteTimeout == 0 || left < r.FirstByteTimeout {
			r.FirstByteTimeout = max(left, time.Millisecond)
			c.clientDeadline = true
		}
	}
	c.sent = time.Now()
	answer, err := c.server.transport.Do(c.Context, &r, read)
	c.firstByte = time.Now()
	return answer, err
}

// mayUseGrant reports whether the permit may still be used.
func (c *call) mayUseGrant() bool { return c.pool.MayUse(c.grant) }

// idle returns the longest silence of a stream; an unstreamed answer may be silent until its end.
func (c *call) idle() time.Duration {
	if c.body.Stream {
		return c.model.Timeouts.Idle.Std()
	}
	return 0
}

func (c *call) path(e *fleet.Endpoint) string {
	asked := c.enginePath()
	if p, ok := e.Paths[asked]; ok {
		return p
	}
	return asked
}

// appendFields appends the headers that an engine gets: its credential, and those of the request.
func (c *call) appendFields(dst []transport.Field, e *fleet.Endpoint) ([]transport.Field, error) {
	fields, err := c.server.credentials.appendFields(dst, e)
	return append(peer.AppendForwarded(fields, c.model.ForwardHeaders, c.headerToPassOn),
		transport.Field{Name: "Accept-Encoding", Value: "identity"}, // without it, an engine may choose any
		transport.Field{Name: hop.HeaderRequestID, Value: c.token.RequestID}), err
}

func band(priority string) permits.Band {
	switch priority {
	case fleet.PriorityInteractive:
		return permits.Interactive
	case fleet.PriorityBatch:
		return permits.Batch
	}
	return permits.Standard
}

// earlier returns the earlier of two times; the zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
