package document

import "colonnade/fleet"

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
	if m.PromptFilter == nil {
		return nil
	}
	if entry, err := m.PromptFilter.Compile(); err != nil {
		return (&fieldError{Field: entry, Reason: err.Error()}).in("prompt_filter")
	}
	return nil
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
