package colo

import (
	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
)

// checkEngineFields refuses a body with a field that the engine of one of these endpoints reads, and that the model's document does not
// allow.
func (c *call) checkEngineFields(endpoints ...*fleet.Endpoint) *refusal {
	if c.body.EngineFields == 0 {
		return nil
	}
	asked := c.body.EngineFields &^ openai.EngineFieldsNamed(c.model.AllowFields)
	for _, e := range endpoints {
		if refused := asked & openai.EngineFieldsOf(e.Engine); refused != 0 {
			field := refused.First()
			return &refusal{
				err:     openai.EngineFieldNotAllowed(field, c.model.Name),
				verdict: hop.Verdict{Kind: hop.VerdictError, Reason: field, Final: true},
			}
		}
	}
	return nil
}

// withdrawRefused gives back a permit of an endpoint that cannot serve the request: its engine reads a field that the engines before it do not,
// since it was put while the request waited; or the request cannot be translated for it.
func (c *call) withdrawRefused(r *refusal) {
	c.held = false
	c.grant.Cancel()
	c.logFailed(&decision{refusal: *r, outcome: analytics.OutcomeRefused})
}
