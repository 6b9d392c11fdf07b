package entry

import (
	"fmt"

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

// checkContent refuses a request for its length in tokens, or for what its prompt says.
func (c *call) checkContent(m *fleet.Model) *openai.Error {
	if err := c.checkLength(m); err != nil {
		return err
	}
	if m.PromptFilter == nil {
		return nil
	}
	err := c.filterPrompt(m)
	if err != nil {
		c.entry.metrics.PromptRefused(m.Name)
	}
	return err
}

// shortBody is the length in bytes of bodies that fit into nearly every context: their engines are not asked for it.
const shortBody = 4 << 10

// checkLength refuses a prompt that cannot fit into the context of a model: that of its document, else the longest that engines state.
func (c *call) checkLength(m *fleet.Model) *openai.Error {
	limit := m.MaxModelLen
	if limit == 0 && len(c.raw) > shortBody {
		limit = c.entry.contextLength(c.entry.config.Table(), m.Name)
	}
	if limit == 0 || len(c.raw) < limit { // a token that is counted takes two bytes or more
		return nil
	}
	if prompt := openai.PromptTokensAtLeast(c.route.API, c.raw); prompt > limit {
		return openai.ContextLengthExceeded(c.route.API, m.Name, limit, prompt)
	}
	return nil
}

// filterPrompt refuses a body that has what the filter of a model names, or of which that cannot be known.
func (c *call) filterPrompt(m *fleet.Model) *openai.Error {
	entry, found := "", false
	text := openai.PromptText{}
	text.Visit = func(part []byte) {
		if !found && text.Size <= m.PromptFilter.MaxText.Int() {
			entry, found = m.PromptFilter.Find(string(part))
		}
	}
	switch ok := text.Read(c.contentType(), c.raw); {
	case found:
		return openai.PromptRefused(m.Name, "it has what prompt_filter."+entry+" of the model names")
	case text.Size > m.PromptFilter.MaxText.Int():
		return openai.PromptRefused(m.Name, fmt.Sprintf("it has %d bytes of text, and only %d are searched (prompt_filter.max_text of the model)", text.Size, m.PromptFilter.MaxText))
	case text.Tokens && c.route.API != openai.Tokenize: // /detokenize takes tokens, and the model reads no prompt
		return openai.PromptRefused(m.Name, "it is a list of tokens, which the model's prompt_filter cannot search: send text")
	case !ok:
		return openai.PromptRefused(m.Name, "the model's prompt_filter cannot read it")
	}
	return nil
}

// limitOutput refuses a request that wants longer answers than its account or key may have, and bounds one that does not say.
func (c *call) limitOutput() *openai.Error {
	limit := c.caller.Account.Limits.OutputTokens
	if of := c.caller.KeyLimits; of != nil && of.OutputTokens > 0 && (limit == 0 || of.OutputTokens < limit) {
		limit = of.OutputTokens
	}
	if limit == 0 {
		return nil
	}
	limited, bound, err := openai.LimitOutput(c.route.API, c.raw, limit)
	if bound > 0 {
		c.body.MaxTokens = bound // from which limits of tokens a minute take
	}
	c.raw, c.limited = limited, true
	return err
}
