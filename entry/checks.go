package entry

import (
	"colonnade/fleet"
	"colonnade/openai"
)

// checkShape refuses a request that a model does not take for its path, its size, or what it asks for at once.
func (c *call) checkShape(m *fleet.Model) *openai.Error {
	if !openai.TypeServes(string(m.Type), c.route.API) {
		return openai.PathNotOfType(m.Name, string(m.Type), c.route.Path)
	}
	if limit := int64(m.MaxBody); int64(len(c.raw)) > limit {
		return openai.RequestTooLarge(limit)
	}
	return c.body.CheckCounts(openai.Limits{Completions: m.MaxCompletions, Inputs: m.MaxInputs}, m.Name)
}

// checkContent refuses a request for what its prompt says, or for its length.
func (c *call) checkContent(*fleet.Model) *openai.Error { return nil }
