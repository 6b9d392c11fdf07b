package entry

import (
	"context"
	"errors"
	"strconv"
	"time"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// forward sends the request to the home of the model's pool in one colo, and returns its answer up to the first byte.
func (c *call) forward(to try) (*peer.Answer, error) {
	began := time.Now()
	r := peer.Request{
		Token:     c.token(to, began),
		Route:     c.route,
		Fields:    c.fields(),
		Body:      c.raw,
		Handshake: c.handshake,
		Limits: peer.Limits{
			Connect:   c.model.Timeouts.Connect.Std(),
			FirstByte: c.untilFirstBy(began),
			Idle:      c.idleTimeout(),
			End:       c.end,
		},
	}
	if c.prelude != nil {
		c.prelude.ResetProgress()
		r.Progress, r.Tick = c.prelude.ReportProgress, c.prelude.Tick
	}
	c.path = append(c.path, to.Home.Node)
	answer, err := c.entry.colo(to.Home)(c.Context, &r)
	c.firstByte = time.Now()
	return answer, err
}

// token is what the next server must know of the request.
func (c *call) token(to try, now time.Time) hop.Token {
	t := hop.Token{
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
		Total:             hop.Millis(max(c.end.Sub(now)-holdBack, time.Millisecond)),
		WantsProgress:     c.prelude != nil,
	}
	if !c.firstBy.IsZero() {
		t.FirstByte = hop.Millis(max(c.firstBy.Sub(now)-holdBack, time.Millisecond))
	}
	return t
}

// colo returns the way to a colo server: in this process if it runs here, else over the network.
func (e *Entry) colo(s *fleet.Server) peer.Func {
	if e.config.Local != nil {
		if local := e.config.Local(s); local != nil {
			return local
		}
	}
	return e.client.To(peer.Server{Colo: s.Colo, Node: s.Node, Address: s.Address})
}

// untilFirstBy is how long to wait for what the client wants by then, if it said so: a little longer than the colo,
// which knows better what it waited for.
func (c *call) untilFirstBy(now time.Time) time.Duration {
	if c.firstBy.IsZero() {
		return 0
	}
	return max(c.firstBy.Sub(now), 0) + time.Second
}

// idleTimeout is the longest silence of a stream, likewise.
func (c *call) idleTimeout() time.Duration {
	if c.body.Stream {
		return c.model.Timeouts.Idle.Std() + time.Second
	}
	return 0
}

// fields are the headers that go on: what is on the list, and nothing else that a client sent.
func (c *call) fields() []transport.Field {
	fields := make([]transport.Field, 0, 8)
	contentType := c.header("Content-Type")
	if contentType == "" && len(c.raw) > 0 {
		contentType = "application/json" // as it was read; engines insist on being told
	}
	fields = append(fields, transport.Field{Name: "Content-Type", Value: contentType})
	for _, name := range [...]string{"Accept", "User-Agent", hop.HeaderTraceParent} {
		fields = append(fields, transport.Field{Name: name, Value: c.header(name)})
	}
	for _, name := range c.model.ForwardHeaders {
		fields = append(fields, transport.Field{Name: name, Value: c.header(name)})
	}
	return fields
}

// relay answers the client with what the colo sent. It reports whether that goes on after the handler has returned.
func (c *call) relay(answer *peer.Answer) (streaming bool) {
	if answer.Response.Upgraded() {
		c.upgrade(answer)
		return true
	}
	c.headers()
	r := c.newRelay()
	r.Response, r.OnChunk = answer.Response, answer.OnChunk
	if relay.WriteResponse(c.rc, answer.Response, r) {
		return true
	}
	c.logWhole(answer.Response)
	return false
}

// newRelay is how the client gets its answer, of which nothing is known yet.
func (c *call) newRelay() *relay.Relay {
	r := &relay.Relay{
		Context: c.Context, Client: c.rc.Conn(), Stall: c.entry.config.WriteStall, RequestID: c.id,
		OnClose: func() {
			defer c.leave()
			if c.answer != nil && c.answer.OnClose != nil {
				c.answer.OnClose()
			}
		},
	}
	r.OnOutcome = func(end relay.Outcome) {
		if r.Response == nil {
			c.logGone(analytics.Outcome(end.Kind))
			return
		}
		if c.answer.OnOutcome != nil {
			c.answer.OnOutcome(end, r.BlockedOnClient())
		}
		c.logStream(r.Response, end)
	}
	return r
}

// headers sets what every answer to a client carries.
func (c *call) headers() {
	for _, f := range c.fieldsBack() {
		c.rc.Response.Header.Set(f.Name, f.Value)
	}
}

func (c *call) fieldsBack() []transport.Field {
	fields := make([]transport.Field, 0, 4)
	fields = append(fields, transport.Field{Name: hop.HeaderRequestID, Value: c.id},
		transport.Field{Name: hop.HeaderAttempts, Value: strconv.Itoa(c.attempts)})
	if c.colo != "" {
		fields = append(fields, transport.Field{Name: hop.HeaderColo, Value: c.colo})
	}
	if c.colo != "" || c.waited > 0 { // a refused request may have waited, too
		fields = append(fields, transport.Field{Name: hop.HeaderQueuedMS, Value: strconv.FormatInt(c.waited.Milliseconds(), 10)})
	}
	return fields
}

// refuse answers with an error, and logs the request as refused or failed.
func (c *call) refuse(e *openai.Error) {
	server.WriteError(c.rc, e, c.id)
	c.headers()
	c.logRefusal(e)
}

// gone ends a request whose context has ended before the first byte: its client has left, unless we are shutting down.
func (c *call) gone() {
	e, outcome := openai.Unavailable(reasons.Draining, time.Second), analytics.OutcomeDrained
	if c.hasLeft() {
		// It may have closed only its sending side: then it must not take silence for an answer.
		e, outcome = openai.Unavailable(reasons.ClientGone, 0), analytics.OutcomeClientGone
	}
	server.WriteError(c.rc, e, c.id)
	c.logGone(outcome)
	c.rc.SetConnectionClose()
}

// hasLeft says that the context has ended since the client has gone.
func (c *call) hasLeft() bool { return errors.Is(context.Cause(c.Context), server.ErrClientGone) }
