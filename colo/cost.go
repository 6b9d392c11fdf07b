package colo

import (
	"math"

	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
)

// The cost of a token in fair queuing for a model without a price. An output token takes a step of the whole batch and costs twice as much
// as an input token, as in "Fairness in Serving Large Language Models" (OSDI 2024).
const (
	inputCost  = 1.0
	outputCost = 2.0
)

// scale brings the costs of requests, in any currency, into the range that package fairqueue computes with.
const scale = 1e3

// bytesOfToken is a first estimate of the bytes of a request for each input token. The queue learns the real cost by account.
const bytesOfToken = 4

// price returns the cost of one token. Costs of all models of a pool are compared, so their prices must have the same unit.
func (c *call) price() (input, output float64) {
	p := c.model.Cost
	if !p.Priced() {
		return inputCost, outputCost
	}
	return p.Input * scale / float64(p.Per), p.Output * scale / float64(p.Per)
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
	input, output := c.price()
	if s.reported {
		used.Input = float64(s.engine.Prompt) * input
	}
	if s.known() {
		used.Output = float64(s.engine.Completion+s.unreportedTokens) * output
	}
	return used
}

// charge charges the account for what the relayed answer has cost so far.
func (c *call) charge(answer *transport.Response) {
	stream := answer.Stream()
	if !c.held || stream == nil {
		return
	}
	_, output := c.price()
	usage, _ := stream.Usage()
	c.grant.Charge(float64(usage.Completion+stream.UnreportedDeltas()) * output)
}

// estimateInputCost estimates the cost of the request's input.
func (c *call) estimateInputCost() float64 {
	input, _ := c.price()
	return float64(len(c.raw)) / bytesOfToken * input
}
