package colo

import (
	"math"

	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/permits"
)

// What a token costs an account in the fair order where the model has no price: an output token, which takes a step of the
// whole batch, twice one of input, as in "Fairness in Serving Large Language Models" (OSDI 2024).
const (
	inputWorth  = 1.0
	outputWorth = 2.0
)

// scale keeps the costs of requests, in whatever currency, well within what package fairqueue reckons with.
const scale = 1e3

// bytesOfToken is what a token of input takes in a request, roughly. What an account's tokens really take is learned.
const bytesOfToken = 4

// price is what one token costs. Models of one pool are compared by it, so their prices must have one unit.
func (c *call) price() (input, output float64) {
	p := c.model.Cost
	if !p.Priced() {
		return inputWorth, outputWorth
	}
	return p.Input * scale / float64(p.Per), p.Output * scale / float64(p.Per)
}

// spent is what is known of what a request took.
type spent struct {
	usage  openai.Usage
	told   bool
	untold int // tokens generated that usage does not tell of
}

func spentOn(body []byte) spent {
	usage, told := openai.BodyUsage(body)
	return spent{usage: usage, told: told}
}

// spentOnAnswer is what an answer has taken that was relayed as it came, complete or not. Of a stream that told nothing, or
// was cut after it did, what else was generated is estimated.
func spentOnAnswer(answer *transport.Response, complete bool) (s spent) {
	s.usage, s.told = answer.Usage()
	if stream := answer.Stream(); stream != nil && !(complete && s.told) {
		s.untold = stream.Untold()
	}
	return s
}

func (s spent) known() bool { return s.told || s.untold > 0 }

// used is s for the fair order.
func (c *call) used(s spent) permits.Used {
	used := permits.Used{Input: math.NaN(), Output: math.NaN()}
	input, output := c.price()
	if s.told {
		used.Input = float64(s.usage.Prompt) * input
	}
	if s.known() {
		used.Output = float64(s.usage.Completion+s.untold) * output
	}
	return used
}

// charge says what an answer that is relayed has cost so far.
func (c *call) charge(answer *transport.Response) {
	stream := answer.Stream()
	if !c.held || stream == nil {
		return
	}
	_, output := c.price()
	usage, _ := stream.Usage()
	c.grant.Charge(float64(usage.Completion+stream.Untold()) * output)
}

// inputCost is what the request's input may cost.
func (c *call) inputCost() float64 {
	input, _ := c.price()
	return float64(len(c.raw)) / bytesOfToken * input
}
