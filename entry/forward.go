package entry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// forward sends the request to the home of the model's pool in one colo, and returns its answer up to the first byte.
func (c *call) forward(to try) (*transport.Response, error) {
	began := time.Now()
	token := hop.Token{
		RequestID:         c.id,
		ClientRequestID:   c.clientID,
		Source:            c.entry.config.Node,
		Account:           c.caller.Account.Name,
		Weight:            c.caller.Account.Weight,
		Priority:          c.priority,
		Concurrent:        c.caller.Account.Limits.Concurrent,
		Model:             c.model.Name,
		Hops:              max(c.model.Retry.Hops-1, 0), // without further hops there is still this one
		Attempt:           c.attempts,
		Retries:           min(c.tries.errors, c.entry.budget.Remaining()),
		EndpointsFailed:   c.tries.broken,
		Wait:              to.wait,
		WaitBelow:         hop.Millis(to.below),
		Waited:            hop.Millis(c.waited),
		ReturnProbability: to.chance,
		Total:             hop.Millis(max(c.end.Sub(began)-holdBack, time.Millisecond)),
		WantsProgress:     c.prelude != nil,
	}
	if !c.firstBy.IsZero() {
		token.FirstByte = hop.Millis(max(c.firstBy.Sub(began)-holdBack, time.Millisecond))
	}
	method, path := c.line()
	signed, err := c.entry.config.Keys.Sign(token, hop.Binding{
		Audience: to.Home.Node, Method: method, Path: c.route.Path, Body: c.raw,
	}, began)
	if err != nil {
		return nil, &transport.ExchangeError{Phase: transport.PhaseConnect, Err: fmt.Errorf("%w: %w", errNotSigned, err)}
	}
	c.path = append(c.path, to.Home.Node)
	r := transport.Request{
		Target:           transport.PeerTarget(c.entry.config.Peers, to.Home.Address, identityOf(to.Home)),
		Method:           method,
		Path:             path,
		Fields:           c.fields(signed),
		Body:             c.raw,
		Handshake:        c.handshakeOn(),
		ConnectTimeout:   c.model.Timeouts.Connect.Std(),
		FirstByteTimeout: c.untilFirstBy(began),
		IdleTimeout:      c.idle(),
		Deadline:         c.end,
	}
	if c.prelude != nil {
		c.prelude.ResetProgress()
		r.OnProgress, r.Tick = c.prelude.ReportProgress, c.prelude.Tick
	}
	answer, err := c.entry.transport.Do(c.Context, &r, transport.ReadOptions{API: c.route.API})
	c.firstByte = time.Now()
	return answer, err
}

// errNotSigned is a fault of this entry: nobody was asked.
var errNotSigned = errors.New("the request could not be signed")

// identityOf is who must be met at a server's address.
func identityOf(s *fleet.Server) peertls.Identity {
	return peertls.Identity{Role: peertls.RoleColo, Colo: s.Colo, Node: s.Node}
}

// untilFirstBy is how long to wait for what the client wants by then, if it said so: a little longer than the colo,
// which knows better what it waited for.
func (c *call) untilFirstBy(now time.Time) time.Duration {
	if c.firstBy.IsZero() {
		return 0
	}
	return max(c.firstBy.Sub(now), 0) + time.Second
}

// idle is the longest silence of a stream, likewise.
func (c *call) idle() time.Duration {
	if c.body.Stream {
		return c.model.Timeouts.Idle.Std() + time.Second
	}
	return 0
}

// fields are the headers that go on: what is on the list, and nothing else that a client sent.
func (c *call) fields(token string) []transport.Field {
	fields := make([]transport.Field, 0, 8)
	contentType := c.header("Content-Type")
	if contentType == "" && len(c.raw) > 0 {
		contentType = "application/json" // as it was read; engines insist on being told
	}
	fields = append(fields, transport.Field{Name: hop.HeaderToken, Value: token},
		transport.Field{Name: "Content-Type", Value: contentType})
	for _, name := range [...]string{"Accept", "User-Agent", hop.HeaderTraceParent} {
		fields = append(fields, transport.Field{Name: name, Value: c.header(name)})
	}
	for _, name := range c.model.ForwardHeaders {
		fields = append(fields, transport.Field{Name: name, Value: c.header(name)})
	}
	return fields
}

// relay answers the client with what the colo sent. It reports whether that goes on after the handler has returned.
func (c *call) relay(answer *transport.Response) (streaming bool) {
	if answer.Upgraded() {
		c.tunnel(answer)
		return true
	}
	c.headers()
	r := c.newRelay()
	r.Response = answer
	if relay.WriteResponse(c.rc, answer, r) {
		return true
	}
	c.logWhole(answer)
	return false
}

// newRelay is how the client gets its answer, of which nothing is known yet.
func (c *call) newRelay() *relay.Relay {
	r := &relay.Relay{
		Context: c.Context, Client: c.rc.Conn(), Stall: c.entry.config.WriteStall, RequestID: c.id, OnClose: c.leave,
	}
	r.OnOutcome = func(end relay.Outcome) {
		if r.Response == nil {
			c.logGone(analytics.Outcome(end.Kind))
			return
		}
		c.logStream(r.Response, end)
	}
	return r
}

// headers sets what every answer to a client carries.
func (c *call) headers() {
	h := &c.rc.Response.Header
	h.Set(hop.HeaderRequestID, c.id)
	if c.colo != "" {
		h.Set(hop.HeaderColo, c.colo)
	}
	if c.colo != "" || c.waited > 0 { // who is refused is told, too, that it has waited
		h.Set(hop.HeaderQueuedMS, strconv.FormatInt(c.waited.Milliseconds(), 10))
	}
	h.Set(hop.HeaderAttempts, strconv.Itoa(c.attempts))
}

// refuse answers with an error, and logs the request as refused or failed.
func (c *call) refuse(e *openai.Error) {
	server.WriteError(c.rc, e, c.id)
	c.headers()
	c.logRefusal(e)
}

// gone ends a request whose context has ended before the first byte: its client has left, unless we are shutting down.
func (c *call) gone() {
	e, outcome := openai.Unavailable("draining", time.Second), analytics.OutcomeDrained
	if c.hasLeft() {
		// It may have closed only its sending side: then it must not take silence for an answer.
		e, outcome = openai.Unavailable("client_gone", 0), analytics.OutcomeClientGone
	}
	server.WriteError(c.rc, e, c.id)
	c.logGone(outcome)
	c.rc.SetConnectionClose()
}

// hasLeft says that the context has ended since the client has gone.
func (c *call) hasLeft() bool { return errors.Is(context.Cause(c.Context), server.ErrClientGone) }

// verdictError is what a client would be told of a verdict.
func verdictError(v hop.Verdict) *openai.Error {
	switch v.Number {
	case 42902:
		return openai.OutOfCapacity(v.Reason, v.RetryAfter)
	case 50401:
		return openai.InferenceTimeout(v.Reason)
	case 50301:
		return openai.Unavailable(v.Reason, max(v.RetryAfter, time.Second))
	case 50000:
		return openai.Internal()
	case 40801, 41301: // it has not come through to the colo, or the colo's table is older than ours
		return openai.Unavailable(v.Reason, time.Second)
	}
	e := openai.EngineFailed(v.Reason)
	e.NoRetry = v.Reason != hop.ReasonConnect // nothing was generated by an engine that could not be reached
	return e
}
