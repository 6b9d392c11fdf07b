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

// lackOf returns what the engine says that it does not have, of what this request needs.
func (c *call) lackOf(class openai.EngineClass, answer *transport.Response) admission.Lack {
	if class != openai.Misconfigured && class != openai.ClientError || answer.NotAPI() {
		return admission.Lack{}
	}
	e := c.grant.Endpoint
	switch openai.LackOf(answer.Status(), answer.ErrorBody(), e.Engine, e.NameOf(c.model)) {
	case openai.LacksModel:
		return admission.Lack{Model: c.model.Name}
	case openai.LacksPath:
		return admission.Lack{Path: c.route.Path}
	}
	return admission.Lack{}
}

// lacks decides after an engine said that it does not have the model or the path. It has not failed, and has generated nothing: the request
// goes on without taking from a budget, and tries each endpoint once.
func (c *call) lacks(l admission.Lack, answer *transport.Response) decision {
	c.pool.Lacks(c.grant.Endpoint, l, fmt.Sprintf("%d: %s", answer.Status(), c.engineWords(answer)))
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
	l, again, ok := c.pool.LackedByAll(c.model.Name, c.route.Path)
	if !ok {
		return nil
	}
	return c.refusalFor(l, max(again, time.Second))
}

// refusalFor returns the refusal of a request for which no endpoint has what it needs. Another colo may have it.
func (c *call) refusalFor(l admission.Lack, again time.Duration) *refusal {
	if l.Path != "" {
		return &refusal{
			err:     openai.PathNotServed(c.model.Name, string(c.model.Type), l.Path),
			verdict: hop.Verdict{Kind: hop.VerdictError, Reason: reasons.PathNotServed},
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
