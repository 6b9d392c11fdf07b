package colo

import (
	"fmt"
	"time"

	"colonnade/admission"
	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
	"colonnade/reasons"
)

// classifyLack decides after an error by which the engine may say that it does not have something of what this request needs. decided is false
// if the error is about something else.
func (c *call) classifyLack(class openai.EngineClass, answer *transport.Response) (next decision, decided bool) {
	if class != openai.Misconfigured && class != openai.ClientError || answer.NotAPI() {
		return decision{}, false
	}
	e := c.grant.Endpoint
	switch said := openai.LackOf(answer.Status(), answer.ErrorBody(), e.Engine, e.NameOf(c.model)); said {
	case openai.LacksPath:
		return c.lacks(admission.Lack{Path: c.request.Route.Path}, true, answer), true
	case openai.LacksModel, openai.MayLackModel:
		if lacks, proven := c.modelLacks(said); lacks {
			return c.lacks(admission.Lack{Model: c.model.Name}, proven, answer), true
		}
		if class == openai.Misconfigured {
			return c.refusedByEngine(answer), true
		}
	case openai.LacksNothing:
		if status := answer.Status(); (status == 404 || status == 405) && c.listEvidence() == listed {
			return c.refusedByEngine(answer), true
		}
	}
	return decision{}, false
}

// refusedByEngine decides after a 404 or 405 of an engine that serves the model: something that the request names is not there, such as an
// earlier response. Another engine may have it, and this one has not failed.
func (c *call) refusedByEngine(answer *transport.Response) decision {
	c.logEngineWords(openai.ClientError, answer)
	next := c.attemptFailed(reasons.EndpointMisconfigured, true)
	next.err, next.verdict.EngineStatus = openai.EngineMisconfigured(reasons.EndpointMisconfigured, answer.Status()), answer.Status()
	return next
}

// lacks decides after an engine said that it does not have the model or the path. It has not failed, and has generated nothing: the request
// goes on without taking from a budget, and tries each endpoint once. If that is proven, others are kept from the engine too.
func (c *call) lacks(l admission.Lack, proven bool, answer *transport.Response) decision {
	if proven {
		c.pool.Lacks(c.grant.Endpoint, l, fmt.Sprintf("%d: %s", answer.Status(), c.engineWords(answer)))
	}
	c.unserved++
	c.failedURLs = append(c.failedURLs, c.grant.Endpoint.URL)
	refused := c.lackedByAll()
	switch {
	case c.lastFailure != nil && c.lastFailure.err.NoRetry:
		refused = c.lastFailure // an engine may have generated an answer before
	case refused == nil && l.Path != "": // of the others, which are not up, one may have it
		refused = refusalWithoutPool(permits.NoEndpoint)
	case refused == nil:
		refused = c.refusalFor(l, time.Second)
	}
	return decision{again: true, free: true, outcome: analytics.OutcomeEngineError, failure: reasonOf(l), refusal: *refused}
}

// lackedByAll returns the refusal of a request for something that all endpoints of its pool lack, or nil.
func (c *call) lackedByAll() *refusal {
	l, again, ok := c.pool.LackedByAll(c.need())
	if !ok {
		return nil
	}
	return c.refusalFor(l, max(again, time.Second))
}

// refusalFor returns the refusal of a request for which no endpoint has what it needs. Another colo may have it.
func (c *call) refusalFor(l admission.Lack, again time.Duration) *refusal {
	if l.Path != "" {
		engines := c.engines()
		return &refusal{
			err:     openai.PathNotServed(c.model.Name, string(c.model.Type), l.Path, engines),
			verdict: hop.Verdict{Kind: hop.VerdictError, Reason: reasons.PathNotServed, Engines: uint32(engines)},
		}
	}
	refused := outOfCapacity(&permits.Refusal{Reason: permits.NoEndpoint, RetryAfter: again})
	refused.err, refused.verdict.Reason = openai.Unavailable(reasons.ModelNotLoaded, again), reasons.ModelNotLoaded
	return refused
}

func reasonOf(l admission.Lack) string {
	if l.Path != "" {
		return reasons.PathNotServed
	}
	return reasons.ModelNotLoaded
}
