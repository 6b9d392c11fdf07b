package balance_test

import (
	"testing"
	"time"

	"colonnade/balance"
)

const none = balance.None

// busy is an endpoint that is up, and has so many of its four slots taken.
func busy(load int) balance.State { return balance.State{Load: load, Free: 4 - load, Up: true} }

var down = balance.State{Load: 4}

// prompt is a prompt of so many blocks of a conversation.
func prompt(conversation uint64, blocks int) *balance.Request {
	r := &balance.Request{Input: blocks << 8}
	for d := range blocks {
		r.Blocks = append(r.Blocks, conversation<<32|uint64(d))
	}
	return r
}

// had is a prompt that an endpoint has got.
type had struct {
	at     int
	prompt *balance.Request
}

func TestPrefixAffinityChoices(t *testing.T) {
	for name, c := range map[string]struct {
		had    []had
		states []balance.State
		barred []bool
		ask    *balance.Request
		want   balance.Choice
	}{
		"the longest match": {
			had{1, prompt(1, 8)}.and(had{2, prompt(1, 20)}), states(0, 0, 0), nil, prompt(1, 30), balance.Choice{At: 2, Prefers: none, Why: balance.Prefix}},
		"of equals the least loaded": {
			had{1, prompt(1, 20)}.and(had{2, prompt(1, 20)}), states(0, 1, 0), nil, prompt(1, 30), balance.Choice{At: 2, Prefers: none, Why: balance.Prefix}},
		"a longer match of a busier endpoint within its bound": {
			had{1, prompt(1, 8)}.and(had{2, prompt(1, 20)}), states(1, 1, 1), nil, prompt(1, 30), balance.Choice{At: 2, Prefers: none, Why: balance.Prefix}},
		"a longer match beyond the bound": {
			had{1, prompt(1, 8)}.and(had{2, prompt(1, 20)}), states(0, 0, 3), nil, prompt(1, 30), balance.Choice{At: 1, Prefers: none, Why: balance.Prefix}},
		"a longer match without a free slot": {
			had{1, prompt(1, 8)}.and(had{2, prompt(1, 20)}), states(3, 3, 4), nil, prompt(1, 30), balance.Choice{At: 1, Prefers: 2, Why: balance.PrefixNext}},
		"the only match without a free slot": {
			had{2, prompt(1, 20)}.and(), states(3, 2, 4), nil, prompt(1, 30), balance.Choice{At: 1, Prefers: 2, Why: balance.PrefixNone}},
		"a little longer without a free slot": {
			had{1, prompt(1, 19)}.and(had{2, prompt(1, 20)}), states(3, 3, 4), nil, prompt(1, 30), balance.Choice{At: 1, Prefers: none, Why: balance.PrefixNext}},
		"a match that is down": {
			had{2, prompt(1, 20)}.and(), []balance.State{busy(1), busy(0), down}, nil, prompt(1, 30), balance.Choice{At: 1, Prefers: none, Why: balance.PrefixNone}},
		"a match that is barred": {
			had{2, prompt(1, 20)}.and(), states(1, 0, 0), []bool{false, false, true}, prompt(1, 30), balance.Choice{At: 1, Prefers: none, Why: balance.PrefixNone}},
		"no match": {
			had{2, prompt(1, 20)}.and(), states(1, 0, 1), nil, prompt(2, 30), balance.Choice{At: 1, Prefers: none, Why: balance.PrefixNone}},
		"a match of less than an eighth": {
			had{2, prompt(1, 3)}.and(), states(1, 0, 1), nil, prompt(1, 30), balance.Choice{At: 1, Prefers: none, Why: balance.PrefixNone}},
		"a prompt of no block": {
			had{2, prompt(1, 20)}.and(), states(1, 0, 1), nil, prompt(1, 0), balance.Choice{At: 1, Prefers: none, Why: balance.PrefixNone}},
		"all barred": {
			had{2, prompt(1, 20)}.and(), states(0, 0, 0), []bool{true, true, true}, prompt(1, 30), balance.Choice{At: none, Prefers: none, Why: balance.PrefixNone}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, indexConfig(1000), engines(3, 4))
			for _, h := range c.had {
				p.Granted(0, h.at, h.prompt)
			}
			for at, s := range c.states {
				p.update(at, s)
			}
			p.want(c.ask, c.barred, c.want)
		})
	}
}

func (h had) and(more ...had) []had { return append([]had{h}, more...) }

func states(loads ...int) []balance.State {
	list := make([]balance.State, len(loads))
	for at, load := range loads {
		list[at] = busy(load)
	}
	return list
}

// A request of which nothing is known goes to the least loaded endpoint, or to the next in turn, or to that of the key 0, by each policy.
func TestUnknownRequest(t *testing.T) {
	weights := balance.Weights{Prefix: 3, Load: 1, Latency: 1}
	for policy, want := range map[balance.Policy]balance.Choice{
		balance.LeastLoaded:        {At: 2, Prefers: none, Why: balance.Load},
		balance.RoundRobin:         {At: 0, Prefers: none, Why: balance.Turn},
		balance.WeightedRoundRobin: {At: 0, Prefers: none, Why: balance.Turn},
		balance.LeastLatency:       {At: 2, Prefers: none, Why: balance.Latency},
		balance.ConsistentHash:     {},
		balance.PrefixAffinity:     {At: 2, Prefers: none, Why: balance.PrefixNone},
		balance.AdapterAffinity:    {At: 2, Prefers: none, Why: balance.Load},
		balance.Score:              {At: 2, Prefers: none, Why: balance.Scored},
	} {
		p := newPool(t, balance.Config{Policy: policy, LoadFactor: 1.25, IndexBytes: 1 << 20, Weights: weights}, engines(4, 4))
		for at, load := range []int{2, 3, 1, 3} {
			p.update(at, busy(load))
		}
		c := p.Choose(0, nil, nil)
		if policy == balance.ConsistentHash {
			want = p.Choose(0, &balance.Request{}, nil)
		}
		if c != want {
			t.Errorf("%v: %s, want %s", policy, text(c), text(want))
		}
		p.take(c.At, nil)
		p.release(c.At, nil)
	}
}

const second = time.Second

// first is an answer that began so late.
type first struct {
	now       balance.Instant
	at, input int
	after     time.Duration
}

func TestLeastLatencyChoices(t *testing.T) {
	known := []first{{0, 0, 4096, second}, {0, 1, 4096, 2 * second}, {0, 2, 4096, 3 * second}}
	for name, c := range map[string]struct {
		firsts []first
		states []balance.State
		now    balance.Instant
		input  int
		want   int
	}{
		"the least":                          {known, states(0, 0, 0), 0, 4096, 0},
		"of equal loads the least":           {known, states(2, 2, 2), 0, 4096, 0},
		"by load":                            {known, states(2, 0, 0), 0, 4096, 1},
		"what is open":                       {known, states(4, 4, 0), 0, 4096, 2},
		"what was never measured":            {known[:2], states(0, 0, 0), 0, 4096, 2},
		"prompts of another size":            {append(known, first{0, 0, 256 << 10, 9 * second}, first{0, 1, 256 << 10, 4 * second}, first{0, 2, 256 << 10, 5 * second}), states(0, 0, 0), 0, 300 << 10, 1},
		"a peak counts at once":              {append(known, first{1, 0, 4096, 9 * second}), states(0, 0, 0), 1, 4096, 1},
		"one better answer is not enough":    {append(known, first{1, 2, 4096, second / 2}), states(0, 0, 0), 1, 4096, 0},
		"better answers for a while":         {append(known, first{30 * second, 2, 4096, second / 2}, first{30 * second, 0, 4096, second}, first{30 * second, 1, 4096, 2 * second}), states(0, 0, 0), 30 * second, 4096, 2},
		"what was slow is tried again":       {[]first{{0, 0, 4096, 9 * second}, {90 * second, 1, 4096, 2 * second}, {90 * second, 2, 4096, 2 * second}}, states(0, 0, 0), 90 * second, 4096, 0},
		"an answer that began before it was": {append(known, first{0, 2, 4096, -second}), states(0, 0, 0), 0, 4096, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, balance.Config{Policy: balance.LeastLatency}, engines(3, 4))
			for _, f := range c.firsts {
				p.FirstByte(f.now, f.at, f.input, f.after)
			}
			for at, s := range c.states {
				p.update(at, s)
			}
			want := balance.Choice{At: c.want, Prefers: none, Why: balance.Latency}
			if got := p.Choose(c.now, &balance.Request{Input: c.input}, nil); got != want {
				t.Errorf("Choose = %s, want %s", text(got), text(want))
			}
		})
	}
}

func TestScoreChoices(t *testing.T) {
	all := balance.Weights{Prefix: 3, Load: 1, Latency: 1}
	for name, c := range map[string]struct {
		weights balance.Weights
		had     []had
		firsts  []first
		states  []balance.State
		want    int
	}{
		"the prefix":                       {all, had{2, prompt(1, 20)}.and(), nil, states(0, 0, 0), 2},
		"the longer prefix":                {all, had{2, prompt(1, 20)}.and(had{1, prompt(1, 10)}), nil, states(0, 0, 1), 2},
		"free slots over a little prefix":  {all, had{2, prompt(1, 2)}.and(), nil, states(3, 0, 3), 1},
		"free slots":                       {all, nil, nil, states(1, 0, 2), 1},
		"only open ones":                   {all, had{2, prompt(1, 20)}.and(), nil, states(1, 0, 4), 1},
		"latency":                          {all, nil, []first{{0, 0, 5 << 10, 2 * second}, {0, 1, 5 << 10, 4 * second}, {0, 2, 5 << 10, second}}, states(0, 0, 0), 2},
		"what was not measured is tried":   {all, nil, []first{{0, 0, 5 << 10, second}, {0, 1, 5 << 10, second / 2}}, states(0, 1, 0), 2},
		"no prefix without its weight":     {balance.Weights{Load: 1}, had{2, prompt(1, 20)}.and(), nil, states(1, 0, 1), 1},
		"no latency without its weight":    {balance.Weights{Prefix: 1}, had{1, prompt(1, 20)}.and(), []first{{0, 1, 5 << 10, 9 * second}, {0, 0, 5 << 10, second}}, states(0, 3, 0), 1},
		"a match of two with fewer slots":  {all, had{1, prompt(1, 20)}.and(had{2, prompt(1, 20)}), nil, states(0, 2, 1), 2},
		"no slot free":                     {all, had{2, prompt(1, 20)}.and(), nil, states(4, 4, 4), none},
		"an endpoint with all of a prompt": {all, had{0, prompt(1, 40)}.and(had{2, prompt(1, 15)}), nil, states(2, 0, 0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			config := indexConfig(1000)
			config.Policy, config.Weights = balance.Score, c.weights
			p := newPool(t, config, engines(3, 4))
			for _, h := range c.had {
				p.Granted(0, h.at, h.prompt)
			}
			for _, f := range c.firsts {
				p.FirstByte(f.now, f.at, f.input, f.after)
			}
			for at, s := range c.states {
				p.update(at, s)
			}
			p.want(prompt(1, 20), nil, balance.Choice{At: c.want, Prefers: none, Why: balance.Scored})
		})
	}
}
