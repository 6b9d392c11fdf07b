package colo

import (
	"errors"
	"strconv"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
)

// serve is the life of a request in a colo.
func (s *Server) serve(rc *fasthttp.RequestCtx) {
	c := s.newCall(rc)
	streaming := false
	defer func() {
		if !streaming {
			c.leave()
		}
	}()
	defer func() { c.recovered(recover()) }()
	if refused := c.receive(); refused != nil {
		refused.write(c)
		return
	}
	for {
		if err := c.acquire(); err != nil {
			if c.follow(err) {
				continue
			}
			c.refuse(err)
			return
		}
		answer, err := c.dispatch()
		if errors.Is(err, transport.ErrNotSent) {
			c.withdraw()
			continue
		}
		c.answer = answer
		next := c.judge(answer, err)
		if next.relay {
			streaming = c.relay(answer)
			return
		}
		if answer != nil {
			answer.Close()
		}
		c.releaseUnserved()
		c.logFailed(&next)
		c.last = &next.refusal
		if !next.again || !s.budget.Take() {
			if next.full {
				next.refusal = *c.fullInItsOwnEyes()
			}
			next.write(c)
			return
		}
		c.retries--
		s.metrics.Retried(c.pool.Name())
	}
}

// relay answers with what the engine says. It reports whether the answer goes on after the handler has returned.
func (c *call) relay(answer *transport.Response) (streaming bool) {
	if answer.Upgraded() {
		c.hold(answer)
		return true
	}
	c.headers(c.attempts)
	if openai.ClassifyStatus(answer.Status()) == openai.ClientError {
		c.relayError(answer)
		return false
	}
	r := &relay.Relay{
		Context: c.Context, Response: answer, Client: c.rc.Conn(), Stall: c.server.config.WriteStall, RequestID: c.hop.RequestID,
		OnChunk: func() { c.charge(answer) },
		OnClose: c.leave,
	}
	r.OnOutcome = func(end relay.Outcome) {
		c.heldUp = r.BlockedOnClient()
		c.known(answer, end)
	}
	if relay.WriteResponse(c.rc, answer, r) {
		return true
	}
	body, _ := answer.Body()
	c.spent = spentOn(body)
	c.release()
	c.logWhole(answer.Status(), body)
	return false
}

// known takes note of how an answer ends that is relayed as it comes. Unless the exchange with the engine still goes on,
// the permit is free before the event is written, which a disk may take its time for.
func (c *call) known(answer *transport.Response, end relay.Outcome) {
	switch {
	case end.Kind == relay.OutcomeCompleted:
		c.succeeded()
	case end.Kind == relay.OutcomeEngineError || end.Reason == hop.ReasonIdle:
		// But not for a request that took all its time: the client may have been slow.
		c.pool.Failed(c.grant.Endpoint, end.Reason)
	}
	c.spent = spentOnAnswer(answer, end.Kind == relay.OutcomeCompleted)
	if answer.Done() {
		c.release()
	}
	c.logStreamEnd(answer, end)
}

// relayError answers with what the engine has against the request. That is always a JSON error, also where the engine
// said so in the first event of a stream, or in a body too long to be held.
func (c *call) relayError(answer *transport.Response) {
	answer.Close()
	c.releaseUnserved()
	body := openai.WrapClientError(answer.Status(), answer.ErrorBody(), c.hop.RequestID)
	server.WriteBody(c.rc, answer.Status(), "application/json", body)
	c.logWhole(answer.Status(), body)
}

// headers sets what every answer to another node carries.
func (c *call) headers(attempts int) {
	for _, f := range c.fieldsBack(attempts) {
		c.rc.Response.Header.Set(f.Name, f.Value)
	}
}

func (c *call) fieldsBack(attempts int) []transport.Field {
	fields := make([]transport.Field, 0, 3)
	if c.pool != nil {
		fields = append(fields, transport.Field{Name: hop.HeaderLoad, Value: hop.Load(c.pool.Load()).String()})
	}
	return append(fields,
		transport.Field{Name: hop.HeaderQueuedMS, Value: strconv.FormatInt(c.queued.Milliseconds(), 10)},
		transport.Field{Name: hop.HeaderAttempts, Value: strconv.Itoa(attempts)})
}

// recovered answers a panic, which would else end the process.
func (c *call) recovered(panicked any) {
	if panicked == nil {
		return
	}
	c.Cancel(errPanicked)
	if c.answer != nil {
		c.answer.Close()
	}
	c.release()
	server.LogPanic(c.server.config.Logger.With("request_id", c.hop.RequestID), "handler", panicked)
	c.logLost()
	(&refusal{err: openai.Internal(), verdict: hop.Verdict{Kind: hop.VerdictError, Final: true}}).write(c)
}

// refuse answers a request that got no permit.
func (c *call) refuse(err error) {
	full := refusedFor(err)
	if full == nil {
		c.gone(err)
		return
	}
	if full.Reason == permits.NoEndpoint && c.last != nil {
		c.last.write(c) // no endpoint is left that has not failed this request: that is why
		return
	}
	outOfCapacity(full).write(c)
}

// refusedFor returns why a pool refused a request, or nil if that is not why there is no permit.
func refusedFor(err error) *permits.Refusal {
	var full *permits.Refusal
	_ = errors.As(err, &full)
	return full
}

// gone ends a request whose context has ended while it waited: nobody reads the answer, unless we end it ourselves.
func (c *call) gone(cause error) {
	if errors.Is(cause, errDrained) {
		unreachable(permits.Draining).write(c)
		return
	}
	clientGone().write(c)
}
