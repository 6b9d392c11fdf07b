package colo

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"colonnade/admission"
	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// call is one request in hand, from Do to its answer's end, which for a stream comes after Do has returned. It is used by one
// goroutine at a time.
type call struct {
	*server.Request // its context ends when the client has gone, or for another cause
	server          *Server
	request         *peer.Request

	// From the request.
	hop     hop.Token
	route   openai.Route
	raw     []byte // the body as received
	arrived time.Time
	firstBy time.Time // by when the client wants a first byte; zero = any time
	end     time.Time // of the whole request

	// From resolve on.
	model *fleet.Model
	pool  *admission.Pool
	table *appliedTable // that the pool was chosen by
	body  openai.Body   // empty for a WebSocket

	// Of all attempts.
	queued    time.Duration
	queueLen  int               // waiting when it arrived
	avoid     []string          // URLs that failed this request
	attempts  int               // at engines, here
	withdrawn int               // of these, the ones that came to nothing since the right to grant had ended
	retries   int               // further attempts allowed
	broken    int               // endpoints that this request has broken
	blamed    []*fleet.Endpoint // refused the request, which may be wrong itself
	last      *refusal          // why the last attempt failed

	// Of the attempt under way.
	grant     admission.Grant
	held      bool // grant is to be released
	granted   time.Time
	sent      time.Time
	firstByte time.Time
	hurried   bool                // the client wants the first byte sooner than the model promises it
	begun     bool                // a begin was logged, so an end must follow
	response  *transport.Response // of the engine
	spent     spent               // what the response took
	heldUp    time.Duration       // by its client

	closed bool
}

// newCall takes a request in hand; close must follow.
func (s *Server) newCall(in *server.Request, r *peer.Request) *call {
	s.budget.Begin()
	now := time.Now()
	c := &call{
		Request: in, server: s, request: r, hop: r.Token, route: r.Route, raw: r.Body,
		arrived: now, end: now.Add(time.Duration(r.Token.Total)), retries: r.Token.Retries, broken: r.Token.EndpointsFailed,
	}
	if r.Token.FirstByte > 0 {
		c.firstBy = now.Add(time.Duration(r.Token.FirstByte))
	}
	return c
}

// close gives back everything that the request holds; further calls do nothing.
func (c *call) close() {
	if c.closed {
		return
	}
	c.closed = true
	defer c.server.budget.End() // also if the log should panic
	c.release()
	c.logCrash()
}

// withdraw gives back a permit that may not be used any more. The request may wait for another.
func (c *call) withdraw() {
	c.withdrawn++
	c.held = false
	c.grant.Cancel()
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = analytics.OutcomeMoved, reasons.GrantExpired, true
	c.log(e)
}

// release gives the permit back. The exchange with the engine must be over.
func (c *call) release() {
	if c.held {
		c.held = false
		c.grant.BlockedOnClient(c.heldUp)
		c.grant.ReleaseUsed(c.used(c.spent))
	}
}

// releaseUnserved gives the permit back of an attempt of which nothing was relayed.
func (c *call) releaseUnserved() {
	if c.held {
		c.held = false
		c.grant.ReleaseUnserved()
	}
}

// permitRequest is what a permit is asked for with.
func (c *call) permitRequest() permits.Request {
	queue := c.pool.Document().Queue
	_, output := c.price()
	r := permits.Request{
		Account:           c.hop.Account,
		Weight:            float64(c.hop.Weight),
		Band:              band(c.hop.Priority),
		Cost:              c.inputCost(),
		Output:            float64(c.body.MaxTokens) * output,
		Bytes:             int64(len(c.raw)),
		Concurrent:        c.hop.Concurrent,
		MaxExpected:       -1,
		ReturnProbability: c.hop.ReturnProbability,
		JitterSeed:        jitterSeed(c.hop.RequestID),
		Deadline:          c.pool.LatestStart(earlier(c.firstBy, c.end), c.work()),
		Arrived:           c.arrived.Add(-time.Duration(c.hop.Waited)),
		Rejoin:            c.attempts > 0,
		Avoid:             c.avoid,
	}
	switch c.hop.Wait {
	case hop.WaitFull:
		r.MaxWait = queue.MaxWait.Std() - time.Duration(c.hop.Waited) - c.queued
	case hop.WaitSpill:
		r.MaxExpected = max(queue.SpillWait.Std(), time.Duration(c.hop.WaitBelow))
		// The expectation may prove wrong: then the next colo is better than a long wait here.
		r.MaxWait = min(4*r.MaxExpected, queue.MaxWait.Std()-time.Duration(c.hop.Waited)-c.queued)
		if r.Rejoin { // of whom nothing is expected
			r.MaxWait = min(r.MaxWait, r.MaxExpected)
		}
	}
	if report := c.request.Progress; report != nil {
		r.Progress = func(p permits.Progress) { report(hop.Progress(p)) }
	}
	return r
}

// jitterSeed is the same in all colos that a request asks. Its client gets the smallest Retry-After of theirs, which must not be
// the one that was jittered most.
func jitterSeed(id string) float64 {
	sum := sha256.Sum256([]byte(id))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// acquire gets a permit, or a [permits.Refusal], or the cause of the context's end.
func (c *call) acquire() error {
	r, began := c.permitRequest(), time.Now()
	grant, err := c.pool.Acquire(c.Context, r)
	if err != nil {
		c.queued += time.Since(began)
		return c.usedUp(err, r)
	}
	c.grant, c.held, c.granted = grant, true, time.Now()
	c.queued += grant.Queued()
	if c.attempts == 0 {
		c.queueLen = grant.QueueLenAtArrival()
	}
	c.attempts++
	c.logBegin() // first: from now on there must be an end, whatever happens
	c.server.metrics.QueueWait(c.pool.Name(), grant.Queued())
	return nil
}

// usedUp tells a request that may not wait since it has waited all it may from one that asked not to.
func (c *call) usedUp(err error, r permits.Request) error {
	var refused *permits.Refusal
	if errors.As(err, &refused) && refused.Reason == permits.Busy && c.hop.Wait == hop.WaitFull && r.MaxWait <= 0 &&
		c.pool.Document().Queue.MaxWait > 0 {
		late := *refused
		late.Reason = permits.QueueTimeout
		return &late
	}
	return err
}

// dispatch sends the request to the granted endpoint.
func (c *call) dispatch() (*transport.Response, error) {
	e := c.grant.Endpoint
	target, err := transport.ParseTarget(e.URL)
	if err != nil {
		return nil, &transport.ExchangeError{Phase: transport.PhaseConnect, Err: err}
	}
	fields, err := c.server.credentials.fields(e)
	if err != nil {
		return nil, &transport.ExchangeError{Phase: transport.PhaseConnect, Err: err}
	}
	edit := openai.Edit{Model: upstreamName(c.model, e), AskUsage: e.Usage == fleet.UsageAsk}
	r := transport.Request{
		Target: target,
		Method: "POST",
		Path:   c.path(e),
		Fields: append(fields, c.fields()...),
		// Much may have happened since the grant: a disk that stalled over its event, a slow connect, or a stop.
		Precondition:   c.server.GrantsEnabled,
		ConnectTimeout: c.model.Timeouts.Connect.Std(),
		IdleTimeout:    c.idle(),
		Deadline:       c.end,
		Linger:         Linger,
		Tick:           c.request.Tick,
	}
	if c.request.Handshake != nil {
		c.toHandshake(&r, edit.Model)
	} else {
		r.Body = c.body.Splice(nil, c.raw, edit)
	}
	if c.body.Stream {
		r.FirstByteTimeout = c.model.Timeouts.FirstByte.Std()
	}
	if !c.firstBy.IsZero() {
		if left := time.Until(c.firstBy); r.FirstByteTimeout == 0 || left < r.FirstByteTimeout {
			r.FirstByteTimeout = max(left, time.Millisecond)
			c.hurried = true
		}
	}
	c.sent = time.Now()
	answer, err := c.server.transport.Do(c.Context, &r, transport.ReadOptions{
		API: c.route.API, StripUsage: edit.AskUsage && !c.body.IncludeUsage, TrackUsage: true,
	})
	c.firstByte = time.Now()
	return answer, err
}

// idle is the longest silence of a stream; an unstreamed answer may be silent until its end.
func (c *call) idle() time.Duration {
	if c.body.Stream {
		return c.model.Timeouts.Idle.Std()
	}
	return 0
}

func (c *call) path(e *fleet.Endpoint) string {
	if p, ok := e.Paths[c.route.Path]; ok {
		return p
	}
	return c.route.Path
}

// fields returns the headers that an engine gets of the request's own.
func (c *call) fields() []transport.Field {
	fields := make([]transport.Field, 0, 8)
	for _, name := range [...]string{"Content-Type", "Accept", "User-Agent", hop.HeaderTraceParent} {
		fields = append(fields, transport.Field{Name: name, Value: c.request.Field(name)})
	}
	fields = append(fields,
		transport.Field{Name: "Accept-Encoding", Value: "identity"}, // without it, an engine may choose any
		transport.Field{Name: hop.HeaderRequestID, Value: c.hop.RequestID})
	for _, name := range c.model.ForwardHeaders {
		fields = append(fields, transport.Field{Name: name, Value: c.request.Field(name)})
	}
	return fields
}

// upstreamName is what e calls m.
func upstreamName(m *fleet.Model, e *fleet.Endpoint) string {
	if name, ok := e.Names[m.Name]; ok {
		return name
	}
	return m.UpstreamName
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

// earlier returns the earlier of two times; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
