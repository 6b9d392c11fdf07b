package colo

import (
	"errors"
	"fmt"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// refusal is why a request is not served: the verdict for the other node, and the error that a client would see.
type refusal struct {
	err     *openai.Error
	verdict hop.Verdict
	gone    error // the cause of the context's end, after which no answer is read
}

// outOfCapacity returns the refusal for a pool without capacity or without endpoints.
func outOfCapacity(r *permits.Refusal) *refusal {
	e, kind := openai.OutOfCapacity(string(r.Reason), r.RetryAfter), hop.VerdictOOC
	switch r.Reason {
	case permits.NoEndpoint:
		e = openai.Unavailable(string(r.Reason), r.RetryAfter)
	case permits.Draining, permits.Moved:
		e, kind = openai.Unavailable(string(r.Reason), r.RetryAfter), hop.VerdictMoved
	}
	v := hop.Verdict{Kind: kind, Reason: string(r.Reason), RetryAfter: r.RetryAfter, Expected: r.Expected, MayWait: r.MayWait}
	if kind == hop.VerdictOOC {
		v.RetryInterval, v.Waited = r.RetryInterval, r.Waited
	}
	return &refusal{err: e, verdict: v}
}

// refusalWithoutPool returns a refusal with a Retry-After of one second, for cases in which no pool computes one.
func refusalWithoutPool(reason permits.Reason) *refusal {
	return outOfCapacity(&permits.Refusal{Reason: reason, RetryAfter: time.Second, MayWait: reason == permits.Busy})
}

// timedOut returns a final refusal: no other attempt would be in time.
func timedOut(reason string) *refusal {
	return &refusal{
		err:     openai.InferenceTimeout(reason),
		verdict: hop.Verdict{Kind: hop.VerdictError, Reason: reason, Final: true},
	}
}

// decision is what follows an attempt: the response is relayed, or another attempt is made if the budget allows, or the request is
// refused.
type decision struct {
	relay bool
	again bool
	full  bool // the engine reported itself full
	free  bool // the next attempt takes from no budget, since nothing was sent
	refusal
	outcome analytics.Outcome // of the attempt that failed
	failure string            // the reason in its event
}

// classify decides what follows an attempt, and reports the endpoint's success or failure to the pool.
func (c *call) classify(answer *transport.Response, err error) decision {
	e := c.grant.Endpoint
	if err != nil {
		c.observeNoFirstByte(err)
		return c.classifyError(err)
	}
	class := c.responseClass(answer)
	c.observeFirstByte(class)
	if class == openai.Relay {
		return c.classifyEnd(answer)
	}
	if next, decided := c.classifyLack(class, answer); decided {
		return next
	}
	switch class {
	case openai.ClientError:
		c.logEngineWords(class, answer)
		c.pool.Succeeded(e)
		return decision{relay: true}
	case openai.Full:
		c.logEngineWords(class, answer)
		// The request waits for another slot, or for this engine's after a moment; a full engine has not failed.
		c.pool.Full(c.grant)
		return decision{
			again: c.retries > 0, full: true, outcome: analytics.OutcomeRefused, failure: reasons.EngineFull,
			refusal: *refusalWithoutPool(permits.Busy), // Retry-After is computed when the client is refused
		}
	case openai.Misconfigured:
		c.logEngineWords(class, answer)
		return c.endpointMisconfigured(answer.Status())
	}
	c.logEngineWords(class, answer)
	return c.endpointFailed(reasons.EngineStatus, fmt.Sprintf("it answered with %d", answer.Status()))
}

// classifyEnd decides after a response that is to be relayed. JSON that is whole by its framing and does not close was cut: the engine,
// or a proxy before it, has died. Of a response that is not whole yet, the relay decides.
func (c *call) classifyEnd(answer *transport.Response) decision {
	body, whole := answer.Body()
	if !whole && c.translated != nil && answer.Stream() == nil {
		return c.endpointMisconfigured(answer.Status()) // too long to be held
	}
	if !whole {
		c.endUnknown = answer.CloseDelimited() && answer.Stream() == nil && !answer.IsJSON()
		return decision{relay: true}
	}
	var end openai.JSONEnd
	c.usage, end = usageOf(c.engineAPI(), answer, body)
	if (end == openai.JSONOpen || answer.CloseDelimited()) && !answer.IsJSON() {
		end = openai.JSONUnclear
	}
	if end == openai.JSONOpen {
		c.usage = tokenUsage{}
		return c.truncated()
	}
	if c.translated != nil && !c.translated.take(body) {
		c.usage = tokenUsage{}
		return c.endpointMisconfigured(answer.Status())
	}
	c.endUnknown = answer.CloseDelimited() && end == openai.JSONUnclear
	c.succeeded()
	return decision{relay: true}
}

// truncated decides after a response that was cut: the client has received nothing, but the engine may have generated all of it.
func (c *call) truncated() decision {
	c.pool.Failed(c.grant.Endpoint, reasons.Truncated)
	return c.attemptFailed(reasons.Truncated, false)
}

// endpointMisconfigured decides after 401, 403, or a 404 or 405 about neither the model nor the path: the engine generated nothing, so the request may be tried elsewhere. If that
// succeeds, the first endpoint counts as failed (see succeeded); otherwise the request is assumed to be at fault.
func (c *call) endpointMisconfigured(status int) decision {
	c.misconfiguredEndpoints = append(c.misconfiguredEndpoints, c.grant.Endpoint)
	next := c.attemptFailed(reasons.EndpointMisconfigured, true)
	next.err, next.verdict.EngineStatus = openai.EngineMisconfigured(reasons.EndpointMisconfigured, status), status
	return next
}

// succeeded reports to the pool that the endpoint served the request, and that the endpoints which refused the same request failed.
func (c *call) succeeded() {
	c.pool.Succeeded(c.grant.Endpoint)
	c.pool.Serves(c.grant.Endpoint, c.model.Name, c.request.Route.Path)
	for _, e := range c.misconfiguredEndpoints {
		c.pool.Failed(e, "it does not know the key, the path or the model: its answers say so")
	}
	c.misconfiguredEndpoints = nil
}

// engineFull is the refusal of a request for which the engine had no slot, though there was a permit.
func (c *call) engineFull() *refusal {
	if c.request.Route.Free() {
		return refusalWithoutPool(permits.Busy) // the pool's slots say nothing of it
	}
	r := c.permitRequest(time.Now())
	return outOfCapacity(c.pool.Refuse(&r, permits.Busy))
}

func (c *call) classifyError(err error) decision {
	var failed *transport.ExchangeError
	var unusable *credentialError
	switch {
	case errors.As(err, &unusable):
		return c.withoutCredential(unusable)
	case errors.Is(err, errDrained):
		return decision{outcome: analytics.OutcomeDrained, failure: reasons.Draining, refusal: refusal{
			err:     openai.Unavailable(string(permits.Draining), time.Second),
			verdict: hop.Verdict{Kind: hop.VerdictError, Reason: string(permits.Draining), Final: true},
		}}
	case !errors.As(err, &failed):
		c.gaveUp()
		return decision{outcome: analytics.OutcomeClientGone, failure: reasons.ClientGone, refusal: refusal{gone: err}}
	case failed.Timeout && (failed.Phase != transport.PhaseConnect || c.outOfTime()):
		return c.timedOut(failed)
	case failed.Phase == transport.PhaseConnect:
		return c.notConnected(failed)
	case failed.Phase == transport.PhaseStream:
		return c.truncated()
	}
	return c.endpointFailed(reasons.NoAnswer, reasons.NoAnswer)
}

// outOfTime reports whether the request's own time was up when the attempt ended.
func (c *call) outOfTime() bool { return !c.firstByte.Before(earlier(c.firstByteDeadline, c.deadline)) }

// timedOut decides after an attempt for which no time is left.
func (c *call) timedOut(failed *transport.ExchangeError) decision {
	c.gaveUp()
	// The endpoint is not to blame for the client's deadline, nor if the request came to it late.
	limits := &c.model.Timeouts
	if failed.Phase != transport.PhaseConnect && !c.clientDeadline && c.firstByte.Sub(c.sent) >= min(limits.FirstByte, limits.Total).Std()/2 {
		c.pool.Failed(c.grant.Endpoint, "no first byte in time")
	}
	reason := reasons.FirstByteTimeout
	if !c.firstByte.Before(c.deadline) {
		reason = reasons.TotalTimeout
	}
	refused := timedOut(reason)
	if c.clientDeadline && reason == reasons.FirstByteTimeout {
		refused.err = openai.OverDeadline()
	}
	return decision{outcome: analytics.OutcomeTimeout, failure: reason, refusal: *refused}
}

// notSent decides after an attempt of which nothing was sent. The request cannot have broken the endpoint, and goes on without taking
// from a budget: it tries each endpoint once.
func (c *call) notSent(reason string) decision {
	c.unsent++
	if c.held {
		c.grant.Abandoned() // a slot on which nothing ran says nothing of how long others take
	}
	next := c.attemptFailed(reason, true)
	if c.lastFailure != nil && c.lastFailure.err.NoRetry {
		next.refusal = *c.lastFailure // an engine may have generated an answer before
	}
	next.again, next.free = true, true
	return next
}

// withoutCredential decides after an attempt for which there was no credential. The engine did nothing wrong, but no request reaches it
// until its document or this server is put right.
func (c *call) withoutCredential(err *credentialError) decision {
	e := c.grant.Endpoint
	c.server.config.Logger.Warn("endpoint misconfigured", "endpoint", e.ID, "url", e.URL, "error", err)
	c.pool.Failed(e, err.Error())
	return c.notSent(reasons.EndpointMisconfigured)
}

// notConnected decides after an attempt that got no connection. If this machine lacks a resource, it would lack it for any other endpoint
// too.
func (c *call) notConnected(failed *transport.ExchangeError) decision {
	next := c.notSent(reasons.ConnectFailed)
	switch {
	case netconn.IsLocalShortage(failed):
		next.again, next.free = c.retries > 0, false
	case netconn.IsRefused(failed):
		c.pool.Refused(c.grant.Endpoint, failed.Error())
	default:
		c.pool.Failed(c.grant.Endpoint, failed.Error())
	}
	return next
}

// endpointFailed decides after an endpoint failed; the request may have broken it. cause is for the log and must not contain text of the
// engine's answer.
func (c *call) endpointFailed(reason, cause string) decision {
	c.pool.Failed(c.grant.Endpoint, cause)
	c.endpointsFailed++
	return c.attemptFailed(reason, c.endpointsFailed < hop.MaxEndpointsFailed)
}

// attemptFailed decides after an attempt that ended with an error.
func (c *call) attemptFailed(reason string, again bool) decision {
	c.failedURLs = append(c.failedURLs, c.grant.Endpoint.URL)
	return decision{
		again:   again && c.retries > 0,
		outcome: analytics.OutcomeEngineError, failure: reason,
		refusal: refusal{
			err:     openai.EngineFailed(reason),
			verdict: hop.Verdict{Kind: hop.VerdictError, Reason: reason, Final: !again},
		},
	}
}
