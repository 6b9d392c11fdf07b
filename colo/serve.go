package colo

import (
	"bytes"
	"errors"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/admission"
	"colonnade/forwarding"
	"colonnade/openai"
)

// maxBroken is how many endpoints one request may break: a third is not given to it.
const maxBroken = 2

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
			c.refuse(err)
			return
		}
		answer, err := c.dispatch()
		next := c.judge(answer, err)
		if next.relay {
			streaming = c.relay(answer)
			return
		}
		if answer != nil {
			answer.Close()
		}
		c.release()
		c.logEnd(next.outcome, next.failure)
		if !next.again || !s.budget.Take() {
			next.write(c)
			return
		}
		c.retries--
		s.metrics.Retried(c.pool.Name())
	}
}

// receive checks who speaks, and reads what is asked for. Nothing is believed before the token is.
func (c *call) receive() *refusal {
	s, rc := c.server, c.rc
	if e := forwarding.CheckHead(rc); e != nil {
		return &refusal{err: e, plain: true}
	}
	route, e := openai.ParseRoute(rc.Method(), rc.RequestURI())
	if e != nil {
		return &refusal{err: e, plain: true}
	}
	c.route, c.raw = route, rc.PostBody()
	hop, err := s.config.Keys.Verify(string(rc.Request.Header.Peek(forwarding.HeaderHop)), forwarding.HopTarget{
		Audience: s.config.Node, Method: string(rc.Method()), Path: route.Path, Body: c.raw,
	}, c.arrived)
	if err != nil {
		s.config.Logger.Warn("request refused on the peer listener", "from", rc.RemoteAddr().String(), "reason", err)
		return &refusal{err: forbidden(), plain: true}
	}
	c.hop, c.retries, c.broken = hop, hop.Retries, hop.Broken
	c.end = c.arrived.Add(time.Duration(hop.Total))
	if hop.FirstByte > 0 {
		c.firstBy = c.arrived.Add(time.Duration(hop.FirstByte))
	}
	return c.resolve()
}

// resolve finds the model and its pool, and looks into the body.
func (c *call) resolve() *refusal {
	s := c.server
	if c.visited() {
		s.config.Logger.Error("request came back: a routing loop", "request_id", c.hop.RequestID, "visited", c.hop.Visited)
		return &refusal{err: openai.Unavailable("routing_loop", 0), verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Final: true}}
	}
	model, ok := s.config.Table().Model(c.hop.Model)
	if !ok {
		// The entry's table is newer than ours, or older: another colo may know it.
		return &refusal{err: openai.ModelNotFound(c.hop.Model), verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Reason: "unknown_model"}}
	}
	pool, ok := s.desk.Pool(model.Pool)
	if !ok {
		return outOfCapacity(admission.NoEndpoint, time.Second, 0)
	}
	c.model, c.pool = model, pool
	var e *openai.Error
	if c.body, e = openai.Peek(c.route.API, string(c.rc.Request.Header.ContentType()), c.raw); e != nil {
		return &refusal{err: e, verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Final: true}}
	}
	if err := c.WatchClient(c.rc.Conn()); err != nil {
		s.config.Logger.Error("cannot watch the client", "reason", err)
		return &refusal{err: openai.Internal(), verdict: forwarding.Verdict{Kind: forwarding.VerdictError}}
	}
	return nil
}

func (c *call) visited() bool {
	for _, server := range c.hop.Visited {
		if server == c.server.config.Node {
			return true
		}
	}
	return c.hop.Hops < 0
}

// relay answers with what the engine says. It reports whether the answer goes on after the handler has returned.
func (c *call) relay(answer *forwarding.Answer) (streaming bool) {
	c.headers(c.attempts)
	relay := &forwarding.Relay{
		Context: c.Context, Answer: answer, Client: c.rc.Conn(), Stall: c.server.config.WriteStall, RequestID: c.hop.RequestID,
		Ended: func(end forwarding.End) {
			c.release()
			c.logStreamEnd(answer, end)
			c.leave()
		},
	}
	if forwarding.WriteAnswer(c.rc, answer, relay) {
		return true
	}
	c.release()
	if openai.ClassifyStatus(answer.Status()) == openai.ClientError {
		body, _ := answer.Whole()
		c.rc.Response.Header.SetContentType("application/json")
		c.rc.Response.SetBodyRaw(openai.WrapClientError(answer.Status(), body, c.hop.RequestID))
	}
	c.logWhole(answer)
	return false
}

// headers sets what every answer to another node carries.
func (c *call) headers(attempts int) {
	h := &c.rc.Response.Header
	if c.pool != nil {
		l := c.pool.Load()
		h.Set(forwarding.HeaderLoad, forwarding.Load{
			Free: l.Free, Held: l.Held, Limit: l.Limit, Queued: l.Queued, Expected: l.Expected, Known: l.Known,
		}.String())
	}
	h.Set(forwarding.HeaderQueuedMS, strconv.FormatInt(c.queued.Milliseconds(), 10))
	h.Set(forwarding.HeaderAttempts, strconv.Itoa(attempts))
}

// recovered answers a panic, which would else end the process.
func (c *call) recovered(panicked any) {
	if panicked == nil {
		return
	}
	c.server.config.Logger.Error("handler panicked", "request_id", c.hop.RequestID, "panic", panicked, "stack", string(bytes.TrimSpace(debug.Stack())))
	c.Cancel(errPanicked)
	(&refusal{err: openai.Internal(), verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Final: true}}).write(c)
}

// refuse answers a request that got no permit.
func (c *call) refuse(err error) {
	var full *admission.Refusal
	if !errors.As(err, &full) {
		c.gone(err)
		return
	}
	if full.Reason == admission.NoEndpoint && c.attempts > 0 {
		// Every endpoint that was left has failed this request: that is why, not a want of room.
		(&refusal{err: openai.EngineFailed("no_other_endpoint"), verdict: forwarding.Verdict{Kind: forwarding.VerdictError, Reason: "no_other_endpoint"}}).write(c)
		return
	}
	outOfCapacity(full.Reason, full.RetryAfter, full.Expected).write(c)
}

// gone ends a request whose context has ended while it waited: nobody reads the answer, unless we end it ourselves.
func (c *call) gone(cause error) {
	if errors.Is(cause, errDrained) {
		outOfCapacity(admission.Draining, time.Second, 0).write(c)
		return
	}
	(&refusal{err: openai.Unavailable("client_gone", 0), plain: true}).write(c)
}
