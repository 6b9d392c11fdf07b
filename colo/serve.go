package colo

import (
	"bytes"
	"errors"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/admission"
	"colonnade/forwarding"
	"colonnade/openai"
)

// serve is the life of a request in a colo.
func (s *Server) serve(rc *fasthttp.RequestCtx) {
	c := s.newCall(rc)
	streaming := false
	defer func() {
		c.recovered(recover())
		if !streaming {
			c.leave()
		}
	}()
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
		c.answer = answer
		next := c.judge(answer, err)
		if next.relay {
			streaming = c.relay(answer)
			return
		}
		if answer != nil {
			answer.Close()
		}
		c.release()
		c.logFailed(&next)
		c.last = &next.refusal
		if !next.again || !s.budget.Take() {
			next.write(c)
			return
		}
		c.retries--
		s.metrics.Retried(c.pool.Name())
	}
}

// receive checks who speaks, and reads what is asked for. Nothing is believed, and no body read, before the token is.
func (c *call) receive() *refusal {
	s, rc := c.server, c.rc
	if e := forwarding.CheckHead(&rc.Request.Header, s.maxBody()); e != nil {
		return &refusal{err: e, plain: true}
	}
	route, e := openai.ParseRoute(rc.Method(), rc.RequestURI())
	if e != nil {
		return &refusal{err: e, plain: true}
	}
	c.route = route
	said, err := s.believe(&rc.Request.Header, route, c.arrived)
	if err != nil {
		return c.forbid(err)
	}
	if c.raw, e = c.Receive(rc, s.maxBody()); e != nil {
		return &refusal{err: e, verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Reason: e.Reason}}
	}
	if err := said.Covers(c.raw); err != nil {
		return c.forbid(err)
	}
	s.budget.Begin()
	hop := said.Hop
	c.arrived, c.budgeted = time.Now(), true
	c.hop, c.retries, c.broken = hop, hop.Retries, hop.Broken
	c.end = c.arrived.Add(time.Duration(hop.Total))
	if hop.FirstByte > 0 {
		c.firstBy = c.arrived.Add(time.Duration(hop.FirstByte))
	}
	return c.resolve()
}

// believe reads the token.
func (s *Server) believe(h *fasthttp.RequestHeader, route openai.Route, now time.Time) (forwarding.Announced, error) {
	return s.config.Keys.VerifyHead(string(h.Peek(forwarding.HeaderHop)), forwarding.HopTarget{
		Audience: s.config.Node, Method: string(h.Method()), Path: route.Path,
	}, now)
}

// unwanted says by the head alone that a request will be refused.
func (s *Server) unwanted(h *fasthttp.RequestHeader) bool {
	if forwarding.CheckHead(h, s.maxBody()) != nil {
		return true
	}
	route, e := openai.ParseRoute(h.Method(), h.RequestURI())
	if e != nil {
		return true
	}
	_, err := s.believe(h, route, time.Now())
	return err != nil
}

// forbid refuses a request that is not one of the fleet's.
func (c *call) forbid(reason error) *refusal {
	c.server.config.Logger.Warn("request refused on the peer listener", "from", c.rc.RemoteAddr().String(), "reason", reason)
	return &refusal{err: forbidden(), plain: true}
}

// resolve finds the model and its pool, and looks into the body.
func (c *call) resolve() *refusal {
	s := c.server
	if astray := c.astray(); astray != "" {
		s.config.Logger.Error("request goes no further", "request_id", c.hop.RequestID, "reason", astray, "visited", c.hop.Visited)
		return &refusal{err: openai.Unavailable(astray, 0), verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Reason: astray, Final: true}}
	}
	if refused := c.find(); refused != nil {
		return refused
	}
	if c.route.API == openai.Realtime && s.Draining() {
		return unreachable(admission.Draining) // it would last longer than this server
	}
	var e *openai.Error
	if c.route.API == openai.Realtime {
		e = c.readHandshake()
	} else {
		c.body, e = openai.Peek(c.route.API, string(c.rc.Request.Header.ContentType()), c.raw)
	}
	if e != nil {
		return &refusal{err: e, verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Final: true}}
	}
	if err := c.WatchClient(c.rc.Conn()); err != nil {
		s.config.Logger.Error("cannot watch the client", "reason", err)
		return &refusal{err: openai.Internal(), verdict: forwarding.Verdict{Kind: forwarding.VerdictError}}
	}
	return nil
}

// astray says why a request has come too far, or nothing.
func (c *call) astray() string {
	switch {
	case slices.Contains(c.hop.Visited, c.server.config.Node):
		return "routing_loop"
	case c.hop.Hops < 0:
		return "hop_limit"
	}
	return ""
}

// relay answers with what the engine says. It reports whether the answer goes on after the handler has returned.
func (c *call) relay(answer *forwarding.Answer) (streaming bool) {
	if answer.Switched() {
		c.hold(answer)
		return true
	}
	c.headers(c.attempts)
	if openai.ClassifyStatus(answer.Status()) == openai.ClientError {
		c.relayError(answer)
		return false
	}
	relay := &forwarding.Relay{
		Context: c.Context, Answer: answer, Client: c.rc.Conn(), Stall: c.server.config.WriteStall, RequestID: c.hop.RequestID,
		Known: func(end forwarding.End) { c.logStreamEnd(answer, end) },
		Ended: c.leave,
	}
	if forwarding.WriteAnswer(c.rc, answer, relay) {
		return true
	}
	c.release()
	body, _ := answer.Whole()
	c.logWhole(answer.Status(), body)
	return false
}

// relayError answers with what the engine has against the request. That is always a JSON error, also where the engine
// said so in the first event of a stream, or in a body too long to be held.
func (c *call) relayError(answer *forwarding.Answer) {
	answer.Close()
	c.release()
	body := openai.WrapClientError(answer.Status(), answer.ErrorBody(), c.hop.RequestID)
	forwarding.WriteBody(c.rc, answer.Status(), "application/json", body)
	c.logWhole(answer.Status(), body)
}

// headers sets what every answer to another node carries.
func (c *call) headers(attempts int) {
	for _, f := range c.fieldsBack(attempts) {
		c.rc.Response.Header.Set(f.Name, f.Value)
	}
}

func (c *call) fieldsBack(attempts int) []forwarding.Field {
	fields := make([]forwarding.Field, 0, 3)
	if c.pool != nil {
		l := c.pool.Load()
		fields = append(fields, forwarding.Field{Name: forwarding.HeaderLoad, Value: forwarding.Load{
			Free: l.Free, Held: l.Held, Limit: l.Limit, Queued: l.Queued, Expected: l.Expected, Known: l.Known,
		}.String()})
	}
	return append(fields,
		forwarding.Field{Name: forwarding.HeaderQueuedMS, Value: strconv.FormatInt(c.queued.Milliseconds(), 10)},
		forwarding.Field{Name: forwarding.HeaderAttempts, Value: strconv.Itoa(attempts)})
}

// recovered answers a panic, which would else end the process.
func (c *call) recovered(panicked any) {
	if panicked == nil {
		return
	}
	c.server.config.Logger.Error("handler panicked", "request_id", c.hop.RequestID, "panic", forwarding.Panicked(panicked), "stack", string(bytes.TrimSpace(debug.Stack())))
	c.Cancel(errPanicked)
	if c.answer != nil {
		c.answer.Close()
	}
	if c.held {
		c.release()
	}
	c.logLost()
	(&refusal{err: openai.Internal(), verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Final: true}}).write(c)
}

// refuse answers a request that got no permit.
func (c *call) refuse(err error) {
	full := refusedFor(err)
	if full == nil {
		c.gone(err)
		return
	}
	if full.Reason == admission.NoEndpoint && c.last != nil {
		c.last.write(c) // no endpoint is left that has not failed this request: that is why
		return
	}
	outOfCapacity(full).write(c)
}

// refusedFor returns why a pool refused a request, or nil if that is not why there is no permit.
func refusedFor(err error) *admission.Refusal {
	var full *admission.Refusal
	_ = errors.As(err, &full)
	return full
}

// gone ends a request whose context has ended while it waited: nobody reads the answer, unless we end it ourselves.
func (c *call) gone(cause error) {
	if errors.Is(cause, errDrained) {
		unreachable(admission.Draining).write(c)
		return
	}
	(&refusal{err: openai.Unavailable("client_gone", 0), plain: true}).write(c)
}
