package permits_test

import (
	"reflect"
	"testing"

	"colonnade/balance"
	"colonnade/permits"
)

// Each grant counts under the policy of its time.
func TestChoicesAreCounted(t *testing.T) {
	c := config()
	p := newPool(t, c, fleet(2, 8)...)
	grant := func(n int) (permit permits.Permit) {
		for range n {
			permit = take(t, p, permits.Request{Account: "a"})
			defer permit.Release()
		}
		return permit
	}
	want := permits.BalanceStats{Policy: "least_loaded", Choices: map[string]map[string]uint64{}}
	expect := func() {
		t.Helper()
		if got := p.Stats().Balance; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v instead of %+v", got, want)
		}
	}
	expect()
	first := grant(3)
	want.Choices["least_loaded"] = map[string]uint64{"load": 3}
	expect()
	c.Balance.Policy = balance.RoundRobin
	p.Configure(c)
	second := grant(2)
	want.Policy, want.Choices["round_robin"] = "round_robin", map[string]uint64{"turn": 2}
	expect()
	for policy, permit := range map[balance.Policy]permits.Permit{balance.LeastLoaded: first, balance.RoundRobin: second} {
		if got := permit.Policy(); got != policy {
			t.Errorf("a permit names the policy %s, want %s", got, policy)
		}
	}
}
