package colo

import (
	"colonnade/balance"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
)

// balanceRequest returns what the choice of an endpoint goes by, as far as the pool's policy needs it; nil if it needs nothing. The prompt
// is hashed outside the pool's mutex, and once for each request.
func (c *call) balanceRequest() *balance.Request {
	b := &c.pool.Document().Balance
	switch b.Policy {
	case fleet.PolicyLeastLoaded, fleet.PolicyRoundRobin, fleet.PolicyWeightedRoundRobin:
		return nil
	}
	if c.balance != nil {
		return c.balance
	}
	r := &balance.Request{Input: max(len(c.raw), 1), Adapter: c.model.Adapter}
	c.balance = r
	switch {
	case b.Policy == fleet.PolicyConsistentHash:
		r.Key = c.affinityKey()
	case b.Policy == fleet.PolicyPrefixAffinity && b.Prefix.By == fleet.PrefixByRing:
		r.Prefix = c.beginning(b.Prefix.Messages)
	case b.Policy == fleet.PolicyPrefixAffinity, b.Policy == fleet.PolicyScore && b.Score.Prefix > 0:
		r.Blocks = c.promptBlocks()
	}
	return r
}

// endpointReason says which endpoint has served the request, and why it was chosen.
func (c *call) endpointReason() string {
	return c.grant.Endpoint.ID + "; policy=" + c.grant.Policy().String() + "; reason=" + c.grant.Why().String()
}

// affinityKey is the hash of the session that the client has named, else of the account. They do not meet: a session is one of an account.
// The header of a model that forwards it to engines is checked here, since it passes the entry as it is.
func (c *call) affinityKey() uint64 {
	var chain balance.Chain
	chain.Reset(c.token.Account)
	if session := c.request.Field(hop.HeaderSessionAffinity); hop.IsSession(session) {
		chain.Write([]byte(session))
	}
	return chain.Sum()
}

// beginning is the hash of the beginning of the conversation.
func (c *call) beginning(messages int) uint64 {
	var chain balance.Chain
	chain.Reset(c.model.Name)
	p := openai.ReadPrompt(c.raw)
	p.Beginning(messages, func(text []byte) { chain.Write(text) })
	return chain.Sum()
}

// promptBlocks are the hashes of the prompt's blocks.
func (c *call) promptBlocks() []uint64 {
	var chain balance.Chain
	chain.Reset(c.model.Name)
	p := openai.ReadPrompt(c.raw)
	p.Text(chain.Write)
	if len(c.raw) <= openai.MaxPrompt { // else it was not read to its end
		c.promptBytes = chain.Size()
	}
	return chain.Blocks()
}

// reportPrompt reports how many tokens the prompt has, if the engine has said so.
func (c *call) reportPrompt() {
	if c.promptBytes > 0 && c.usage.reported {
		c.pool.ReportPrompt(c.promptBytes, c.usage.engine.Prompt)
	}
}
