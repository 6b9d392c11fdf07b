package colo

import (
	"math"

	"colonnade/fleet"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
)

// The cost of a token in fair queuing for a model without a price. An output token takes a step of the whole batch and costs twice as much
// as an input token, as in "Fairness in Serving Large Language Models" (OSDI 2024). A prompt token from the engine's cache is not computed
// again, but occupies memory and is read for each token of the output: a tenth, the usual price of APIs that have one.
const (
	inputCost       = 1.0
	cachedInputCost = inputCost / 10
	outputCost      = 2.0
)

// scale brings the costs of requests, in any currency, into the range that package fairqueue computes with.
const scale = 1e3

// bytesOfToken is a first estimate of the bytes of a request for each input token. The queue learns the real cost by account.
const bytesOfToken = 4

// price returns the cost of tokens. Costs of all models of a pool are compared, so their prices must have the same unit.
func (c *call) price() fleet.Cost {
	p := c.model.Cost
	if !p.Priced() {
		return fleet.Cost{Input: inputCost, CachedInput: cachedInputCost, Output: outputCost, Per: 1}
	}
	p.Input, p.CachedInput, p.Output = p.Input*scale, p.CachedInput*scale, p.Output*scale
	return p
}

// tokenUsage is what is known of the tokens of a request.
type tokenUsage struct {
	engine           openai.Usage
	reported         bool
	unreportedTokens int // generated tokens that the engine's usage does not include, estimated
}

// usageOf returns the usage and the end of a whole body.
func usageOf(api openai.API, answer *transport.Response, body []byte) (tokenUsage, openai.JSONEnd) {
	usage, reported, end := openai.ReadBody(api, body)
	s := tokenUsage{engine: usage, reported: reported}
	s.addHeaders(answer)
	return s, end
}

// addHeaders adds what only headers of an answer report, of which the body reports nothing or the output alone.
func (s *tokenUsage) addHeaders(answer *transport.Response) {
	if s.engine.Prompt > 0 {
		return
	}
	if u, ok := openai.HeaderUsage(answer.Header); ok {
		s.engine.Prompt, s.engine.Completion, s.reported = u.Prompt, max(u.Completion, s.engine.Completion), true
	}
}

// usageOfStream returns the usage of an answer that was relayed as it came. Tokens of a stream without a usage report, or cut after it, are
// estimated.
func usageOfStream(answer *transport.Response, complete bool) (s tokenUsage) {
	s.engine, s.reported = answer.Usage()
	stream := answer.Stream()
	if stream == nil {
		s.addHeaders(answer)
	} else if !(complete && s.reported) {
		s.unreportedTokens = stream.UnreportedDeltas()
	}
	return s
}

func (s tokenUsage) known() bool { return s.reported || s.unreportedTokens > 0 }

// costOf returns the cost of a usage for fair queuing.
func (c *call) costOf(s tokenUsage) permits.Used {
	used := permits.Used{Input: math.NaN(), Output: math.NaN()}
	price := c.price()
	if s.reported {
		used.Input = price.Of(float64(s.engine.Prompt), float64(s.engine.Cached), 0)
	}
	if s.known() {
		used.Output = price.Of(0, 0, float64(s.engine.Completion+s.unreportedTokens))
	}
	return used
}

// charge charges the account for what the relayed answer has cost so far.
func (c *call) charge(answer *transport.Response) {
	stream := answer.Stream()
	if !c.held || stream == nil {
		return
	}
	usage, _ := stream.Usage()
	c.grant.Charge(c.price().Of(0, 0, float64(usage.Completion+stream.UnreportedDeltas())))
}

// estimateInputCost estimates the cost of the request's input without a cache. The queue learns by account how much of that it costs.
func (c *call) estimateInputCost() float64 {
	return c.price().Of(float64(len(c.raw))/bytesOfToken, 0, 0)
}
