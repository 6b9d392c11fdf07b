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

// outOfCapacity refuses for want of room, or of anybody who could serve.
func outOfCapacity(r *permits.Refusal) *refusal {
	e, kind := openai.OutOfCapacity(string(r.Reason), r.RetryAfter), hop.VerdictOOC
	switch r.Reason {
	case permits.NoEndpoint:
		e = openai.Unavailable(string(r.Reason), r.RetryAfter)
	case permits.Draining:
		e, kind = openai.Unavailable(string(r.Reason), r.RetryAfter), hop.VerdictMoved
	}
	return &refusal{err: e, verdict: hop.Verdict{
		Kind: kind, Reason: string(r.Reason), RetryAfter: r.RetryAfter, Expected: r.Expected,
		MayWait: r.MayWait,
	}}
}

// unreachable refuses where there is no pool to ask when to come back.
func unreachable(reason permits.Reason) *refusal {
	return outOfCapacity(&permits.Refusal{Reason: reason, RetryAfter: time.Second, MayWait: reason == permits.Busy})
}

// timedOut refuses for good: no other attempt would come in time.
func timedOut(reason string) *refusal {
	return &refusal{
		err:     openai.InferenceTimeout(reason),
		verdict: hop.Verdict{Kind: hop.VerdictError, Reason: reason, Final: true},
	}
}

// next is what follows an attempt: the answer is relayed, or the request tries again if it may, or is refused.
type next struct {
	relay bool
	again bool
	full  bool // the engine said so
	refusal
	outcome analytics.Outcome // of the attempt that failed
	failure string            // its reason in the event
}

// judge decides what follows an attempt, and tells the pool what became of its endpoint.
func (c *call) judge(answer *transport.Response, err error) next {
	e := c.grant.Endpoint
	if err != nil {
		c.tellCut(err)
		return c.judgeError(err)
	}
	class := c.classify(answer)
	c.tellFirstByte(class)
	switch class {
	case openai.Relay:
		if _, whole := answer.Body(); whole {
			c.succeeded() // else its end will tell
		}
		return next{relay: true}
	case openai.ClientError:
		c.pool.Succeeded(e)
		return next{relay: true}
	case openai.Full:
		// It waits for another slot, or for this engine's after a moment: being full is no failure.
		c.pool.Full(c.grant)
		return next{
			again: c.retries > 0, full: true, outcome: analytics.OutcomeRefused, failure: reasons.EngineFull,
			refusal: *unreachable(permits.Busy), // when to come back is asked when the client is told
		}
	case openai.Misconfigured:
		c.server.config.Logger.Warn("endpoint is misconfigured: its answer says so", "endpoint", e.ID, "url", e.URL,
			"status", answer.Status(), "model", c.model.Name)
		return c.misconfigured()
	}
	return c.endpointFailed(reasons.EngineStatus, fmt.Sprintf("it answered with %d", answer.Status()))
}

// misconfigured is an attempt at an endpoint that does not know the key, the path or the model. It has generated
// nothing, so another may be tried. If that one serves the request, it was not the client's fault: see succeeded.
func (c *call) misconfigured() next {
	c.blamed = append(c.blamed, c.grant.Endpoint)
	return c.failed(reasons.EndpointMisconfigured, true)
}

// succeeded says that the endpoint answered as it should, and others not that would not take the same request.
func (c *call) succeeded() {
	c.pool.Succeeded(c.grant.Endpoint)
	for _, e := range c.blamed {
		c.pool.Failed(e, "it does not know the key, the path or the model: its answers say so")
	}
	c.blamed = nil
}

// engineFull is the refusal of a request for which the engine had no slot, though there was a permit.
func (c *call) engineFull() *refusal {
	r := c.permitRequest()
	return outOfCapacity(c.pool.Refuse(&r, permits.Busy))
}

func (c *call) judgeError(err error) next {
	var failed *transport.ExchangeError
	switch {
	case errors.Is(err, errDrained):
		return next{outcome: analytics.OutcomeDrained, failure: reasons.Draining, refusal: refusal{
			err:     openai.Unavailable(string(permits.Draining), time.Second),
			verdict: hop.Verdict{Kind: hop.VerdictError, Final: true},
		}}
	case !errors.As(err, &failed):
		return next{outcome: analytics.OutcomeClientGone, failure: reasons.ClientGone, refusal: refusal{gone: err}}
	case failed.Phase == transport.PhaseConnect:
		// Nothing was sent, so nothing was broken.
		if !netconn.IsLocalShortage(err) {
			c.pool.Failed(c.grant.Endpoint, failed.Error())
		}
		return c.failed(reasons.ConnectFailed, true)
	case failed.Timeout:
		if !c.hurried { // else it was only the client that did not want to wait
			c.pool.Failed(c.grant.Endpoint, "no first byte in time")
		}
		reason := reasons.FirstByteTimeout
		if !c.firstByte.Before(c.end) {
			reason = reasons.TotalTimeout
		}
		refused := timedOut(reason)
		if c.hurried && reason == reasons.FirstByteTimeout {
			refused.err = openai.OverDeadline()
		}
		return next{outcome: analytics.OutcomeTimeout, failure: reason, refusal: *refused}
	case failed.Phase == transport.PhaseStream:
		// The client has got nothing of the answer, but the engine may have generated all of it.
		c.pool.Failed(c.grant.Endpoint, reasons.Truncated)
		return c.failed(reasons.Truncated, false)
	}
	return c.endpointFailed(reasons.NoAnswer, reasons.NoAnswer)
}

// endpointFailed is an attempt by which the endpoint failed: the request may have broken it. The pool is not told in the words
// of an error, which may repeat what the engine has answered.
func (c *call) endpointFailed(reason, why string) next {
	c.pool.Failed(c.grant.Endpoint, why)
	c.broken++
	return c.failed(reason, c.broken < hop.MaxEndpointsFailed)
}

// failed is an attempt that an error ended.
func (c *call) failed(reason string, again bool) next {
	c.avoid = append(c.avoid, c.grant.Endpoint.URL)
	e := openai.EngineFailed(reason)
	e.NoRetry = reason != reasons.ConnectFailed // nothing was generated by an engine that could not be reached
	return next{
		again:   again && c.retries > 0,
		outcome: analytics.OutcomeEngineError, failure: reason,
		refusal: refusal{
			err:     e,
			verdict: hop.Verdict{Kind: hop.VerdictError, Reason: reason, Final: !again},
		},
	}
}
