package colo

import (
	"math"
	"testing"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/openai"
	"colonnade/permits"
)

func priced(c fleet.Cost) *call { return &call{model: &fleet.Model{Cost: c}, raw: make([]byte, 400)} }

// The cost of a request follows the model's prices, or for a model without prices the work of its tokens.
func TestCostOf(t *testing.T) {
	nan := math.NaN()
	reported := tokenUsage{engine: openai.Usage{Prompt: 100, Completion: 50}, reported: true}
	f := func(name string, cost fleet.Cost, s tokenUsage, want permits.Used) {
		t.Helper()
		got := priced(cost).costOf(s)
		same := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 || math.IsNaN(a) && math.IsNaN(b) }
		if !same(got.Input, want.Input) || !same(got.Output, want.Output) {
			t.Errorf("%s: used %v, want %v", name, got, want)
		}
	}
	f("no price", fleet.Cost{}, reported, permits.Used{Input: 100, Output: 100})
	f("priced", fleet.Cost{Input: 0.4, Output: 1.2, Per: 1000}, reported, permits.Used{Input: 40, Output: 60})
	f("for nothing", fleet.Cost{Per: 1000}, reported, permits.Used{Input: 100, Output: 100})
	f("an input for nothing", fleet.Cost{Output: 1, Per: 1000}, reported, permits.Used{Input: 0, Output: 50})
	cached := tokenUsage{engine: openai.Usage{Prompt: 100, Completion: 50, Cached: 80}, reported: true}
	f("cached, no price", fleet.Cost{}, cached, permits.Used{Input: 20 + 8, Output: 100})
	f("cached, priced", fleet.Cost{Input: 0.4, CachedInput: 0.1, Output: 1.2, Per: 1000}, cached, permits.Used{Input: 8 + 8, Output: 60})
	f("cached for nothing", fleet.Cost{Input: 0.4, Output: 1.2, Per: 1000}, cached, permits.Used{Input: 8, Output: 60})
	f("more cached than there were", fleet.Cost{}, tokenUsage{engine: openai.Usage{Prompt: 100, Cached: 900}, reported: true}, permits.Used{Input: 10})
	f("cut", fleet.Cost{}, tokenUsage{unreportedTokens: 7}, permits.Used{Input: nan, Output: 14})
	f("cut after it reported", fleet.Cost{}, tokenUsage{engine: openai.Usage{Prompt: 3, Completion: 5}, reported: true, unreportedTokens: 2},
		permits.Used{Input: 3, Output: 14})
	f("reported nothing", fleet.Cost{}, tokenUsage{}, permits.Used{Input: nan, Output: nan})
	f("an embedding", fleet.Cost{}, tokenUsage{engine: openai.Usage{Prompt: 9}, reported: true}, permits.Used{Input: 9})
}

// Before it runs, a request is taken for as many tokens as its bytes may be, and no more output than it wants.
func TestClaimed(t *testing.T) {
	c := priced(fleet.Cost{Input: 0.5, Output: 2, Per: 1000})
	if got, want := c.estimateInputCost(), 100*0.5; math.Abs(got-want) > 1e-9 {
		t.Errorf("400 bytes of input cost %v, want %v", got, want)
	}
}

// The event has the price by which the account is billed: of cached tokens, the model's own.
func TestEventCostOfCachedTokens(t *testing.T) {
	c := priced(fleet.Cost{Unit: "eur", Input: 4, CachedInput: 1, Output: 10, Per: 100})
	c.usage = tokenUsage{engine: openai.Usage{Prompt: 100, Completion: 50, Cached: 80}, reported: true}
	var e analytics.Event
	c.addUsage(&e)
	if e.CachedTokens != 80 || math.Abs(e.Cost-(0.8+0.8+5)) > 1e-9 || e.CostUnit != "eur" {
		t.Errorf("%d cached tokens, cost %v %s; want 80, 6.6 eur", e.CachedTokens, e.Cost, e.CostUnit)
	}
}
