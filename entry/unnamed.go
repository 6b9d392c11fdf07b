package entry

import (
	"colonnade/fleet"
	"colonnade/openai"
)

// unnamedModel returns the name of the model for a request whose body has none: that of the query or of the header x-colonnade-model, else
// the only one that the account may use for the path.
func (c *call) unnamedModel(t *fleet.Table) (string, *openai.Error) {
	named, inQuery := c.header(modelHeader), c.route.Model
	switch {
	case named != "" && inQuery != "" && named != inQuery:
		return "", openai.InvalidRequest("model", "the header x-colonnade-model and the query name different models: name one")
	case inQuery != "":
		return inQuery, nil
	case named != "":
		return named, openai.CheckModel(named)
	}
	only, several := c.onlyModel(t)
	switch {
	case several:
		return "", openai.InvalidRequest("model", "the body has no \"model\", and several models serve %s: name one as \"model\" in the body, as ?model= in the query, or in the header x-colonnade-model", c.route.Path)
	case only == nil:
		return "", openai.InvalidRequest("model", "the body has no \"model\", and no model that this account may use serves %s: see /v1/models", c.route.Path)
	}
	return only.Name, nil
}

// onlyModel returns the one model that the account may use for the path, or whether there are several.
func (c *call) onlyModel(t *fleet.Table) (only *fleet.Model, several bool) {
	note := func(m *fleet.Model) {
		if openai.TypeServes(string(m.Type), c.route.API) {
			several = only != nil
			only = m
		}
	}
	if names := c.caller.Account.Models; names != nil {
		for i := 0; i < len(names) && !several; i++ {
			if m, ok := t.Model(names[i]); ok && m.Name == names[i] && m != only {
				note(m)
			}
		}
		return only, several
	}
	for i, all := 0, t.Models(); i < len(all) && !several; i++ {
		note(all[i])
	}
	return only, several
}
