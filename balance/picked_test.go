package balance_test

import (
	"slices"
	"testing"

	"colonnade/balance"
)

// Pick is offered the endpoints that are open to the request, and nothing if there are none.
func TestPickDecides(t *testing.T) {
	var offered []string
	list := engines(4, 2)
	p := newPool(t, balance.Config{Pick: func(open []string, _ *balance.Request) int {
		offered = slices.Clone(open)
		return len(open) - 1
	}}, list)
	p.full(1)
	p.want(&balance.Request{}, []bool{false, false, false, true}, balance.Choice{At: 2, Prefers: balance.None, Why: balance.Scored})
	if want := []string{list[0].ID, list[2].ID}; !slices.Equal(offered, want) {
		t.Errorf("%v were offered, want %v", offered, want)
	}
	offered = nil
	for at := range list {
		p.full(at)
	}
	p.want(&balance.Request{}, nil, balance.Choice{At: balance.None, Prefers: balance.None})
	if offered != nil {
		t.Errorf("%v were offered, though they are full", offered)
	}
}
