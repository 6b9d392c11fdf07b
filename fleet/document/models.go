package document

import (
	"strconv"

	"colonnade/fleet"
)

// maxFallbacks is how many fallbacks a model may have: each may cost a request another round of refusals.
const maxFallbacks = 8

// checkModel checks the rules of a model that no tag has, or of the defaults of models, which have no name.
func checkModel(name string, m *fleet.Model) *fieldError {
	if err := checkRouting(&m.Routing); err != nil {
		return err
	}
	if err := checkFallbacks(name, m.Fallback); err != nil {
		return err
	}
	if err := checkCost(m.Cost); err != nil {
		return err
	}
	if m.PromptFilter == nil {
		return nil
	}
	if entry, err := m.PromptFilter.Compile(); err != nil {
		return (&fieldError{Field: entry, Reason: err.Error()}).in("prompt_filter")
	}
	return nil
}

// checkCost compares the prices of one document. Prices of several layers are compared by finishCost.
func checkCost(c fleet.Cost) *fieldError {
	if c.Input == 0 || c.CachedInput <= c.Input {
		return nil
	}
	return (&fieldError{
		Field: "cached_input", Value: strconv.FormatFloat(c.CachedInput, 'g', -1, 64),
		Reason: "must be at most cost.input, since a prompt token from the cache costs no more than another",
	}).in("cost")
}

// finishCost completes the price of cached tokens. A layer that sets it may lie below one with a lower price of input.
func finishCost(c *fleet.Cost, setsCached bool) {
	if !setsCached || c.CachedInput > c.Input {
		c.CachedInput = c.Input
	}
}

func checkFallbacks(name string, all []fleet.Fallback) *fieldError {
	if len(all) > maxFallbacks {
		return &fieldError{Field: "fallback", Value: "a list", Reason: "must have at most 8 models"}
	}
	seen := map[string]bool{}
	for i, f := range all {
		reason := ""
		switch {
		case !validName(f.Model):
			reason = acceptedName
		case f.Model == name:
			reason = "must be another model than this one"
		case seen[f.Model]:
			reason = "stands in the list twice"
		}
		if reason != "" {
			return (&fieldError{Value: quote(f.Model), Reason: reason}).at(i).in("fallback")
		}
		seen[f.Model] = true
	}
	return nil
}
