package permits_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/fairqueue"
	"colonnade/permits"
)

// served has one account hold each slot of a pool for so long, and use so much.
func served(t *testing.T, p *permits.Pool, account string, hold time.Duration, output float64) {
	t.Helper()
	for range 32 {
		permit := take(t, p, patient(account))
		time.Sleep(hold)
		permit.ReleaseUsed(permits.Used{Input: 1, Output: output})
	}
}

// A pool that has taken over what another has learned says the same of holds, waits and costs, before it has released a permit.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newPool(t, byTokens(), fleet(1, 2)...)
		served(t, old, "terse", 3*time.Second, 10)
		served(t, old, "verbose", 3*time.Second, 1000)
		want := old.DetailedStats(9)
		p := newPool(t, byTokens(), fleet(1, 2)...)
		l := old.Learned(9)
		if !p.Adopt(&l) {
			t.Error("Adopt has not taken over the mean hold")
		}
		got := p.DetailedStats(9)
		if got.RatePerSecond != want.RatePerSecond || got.MeanHeldMillis == nil || *got.MeanHeldMillis != *want.MeanHeldMillis {
			t.Errorf("a rate of %v and a mean hold of %v, want %v and %v", got.RatePerSecond, got.MeanHeldMillis, want.RatePerSecond, *want.MeanHeldMillis)
		}
		if got.CostPerSlotSecond == nil || *got.CostPerSlotSecond != *want.CostPerSlotSecond {
			t.Errorf("a second of a slot costs %v, want %v", got.CostPerSlotSecond, *want.CostPerSlotSecond)
		}
		if again := p.Learned(9); !reflect.DeepEqual(again.Accounts, l.Accounts) || again.Costs != l.Costs {
			t.Errorf("it has learned %+v, want %+v", again, l)
		}
		for account, output := range map[string]float64{"terse": 10, "verbose": 1000} {
			permit := take(t, p, patient(account))
			if a := p.DetailedStats(9).Accounts[0]; a.Account != account || a.MeanOutput == nil || *a.MeanOutput != output {
				t.Errorf("the accounts begin with %+v, want %s with %v for an output", a, account, output)
			}
			permit.Release()
		}
	})
}

// A new home that has taken over the mean hold spreads Retry-After no more than the old home did, and goes by the true rate.
func TestAdoptedRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Limit = 0
		old := newPool(t, c, fleet(1, 1)...)
		served(t, old, "a", 5*time.Second, 1)
		first := func(p *permits.Pool) *permits.Refusal {
			permit := take(t, p, patient("a"))
			defer permit.Release()
			refuse(t, p, patient("a"), permits.QueueFull) // its retry is ahead of the next
			return refuse(t, p, patient("a"), permits.QueueFull)
		}
		p, fresh := newPool(t, c, fleet(1, 1)...), newPool(t, c, fleet(1, 1)...)
		l := old.Learned(0)
		p.Adopt(&l)
		if r := first(p); r.RetryAfter < 5*time.Second || r.RetryAfter > 6250*time.Millisecond || r.Expected != 5*time.Second {
			t.Errorf("Retry-After %v with an expected wait of %v, want 5 s to 6.25 s, and 5 s", r.RetryAfter, r.Expected)
		}
		if r := first(fresh); r.Expected != 0 {
			t.Errorf("a pool that has learned nothing expects a wait of %v", r.Expected)
		}
	})
}

// A pool that knows enough of its own takes over nothing.
func TestAdoptKeepsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, p := newPool(t, byTokens(), fleet(1, 2)...), newPool(t, byTokens(), fleet(1, 2)...)
		served(t, old, "a", 3*time.Second, 10)
		served(t, p, "a", time.Second, 99)
		want, l := p.Learned(9), old.Learned(9)
		p.Adopt(&l)
		if got := p.Learned(9); !reflect.DeepEqual(got, want) {
			t.Errorf("it has learned %+v, want %+v", got, want)
		}
	})
}

// Nothing that cannot be true is taken over, and no more than the bounds allow.
func TestAdoptBounds(t *testing.T) {
	costs := func(v float64) fairqueue.Costs { return fairqueue.Costs{Output: fairqueue.MeanCost{N: 9, Value: v}} }
	for name, l := range map[string]permits.Learned{
		"negative hold": {Released: 99, HeldMillis: -1},
		"no number":     {Released: 99, HeldMillis: math.NaN()},
		"infinite":      {Released: 99, HeldMillis: math.Inf(1)},
		"too long":      {Released: 99, HeldMillis: 1e12},
		"too few":       {Released: 3, HeldMillis: 1},
		"other unit":    {Cost: "requests", Served: 99, CostPerSlotSecond: 5, Costs: costs(1)},
		"costs": {
			Cost: "tokens", Served: 99, CostPerSlotSecond: math.Inf(1), Costs: costs(math.NaN()),
			Accounts: []fairqueue.AccountCosts{{Account: "a", Costs: costs(-1)}, {Account: "", Costs: costs(1)}, {Account: fmt.Sprintf("%999d", 1), Costs: costs(1)}},
		},
	} {
		p := newPool(t, byTokens(), fleet(1, 1)...)
		p.Adopt(&l)
		if got, want := p.Learned(9), (permits.Learned{Cost: "tokens"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: it has learned %+v", name, got)
		}
	}
	many := permits.Learned{Released: math.MaxInt, HeldMillis: 1, Cost: "tokens"}
	for i := range 2 * permits.MaxAdoptedAccounts {
		many.Accounts = append(many.Accounts, fairqueue.AccountCosts{Account: fmt.Sprint(i), Costs: costs(1)})
	}
	p := newPool(t, byTokens(), fleet(1, 1)...)
	p.Adopt(&many)
	p.Adopt(&many)
	if got := p.Learned(1000); len(got.Accounts) != permits.MaxAdoptedAccounts || got.Released <= 0 {
		t.Errorf("%d accounts and %d releases were taken over", len(got.Accounts), got.Released)
	}
	if got := p.Learned(3); len(got.Accounts) != 3 {
		t.Errorf("%d accounts, want 3", len(got.Accounts))
	}
}
