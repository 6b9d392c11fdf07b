package routing_test

import (
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/routing"
)

// registered is an active server that has registered pools.
func registered(pools map[string]int) fleet.Server {
	return fleet.Server{State: fleet.StateActive, Pools: pools}
}

func TestColosWithoutThePoolAreLeftOut(t *testing.T) {
	has, lacks := map[string]int{"p": 4}, map[string]int{"q": 4}
	draining := fleet.Server{Node: "2", State: fleet.StateDraining, Pools: has}
	table := tableOf([]site{
		{name: "active", servers: []fleet.Server{registered(has)}},
		{name: "empty", servers: []fleet.Server{registered(map[string]int{})}},
		{name: "lacking", servers: []fleet.Server{registered(lacks)}},
		{name: "unknown", servers: []fleet.Server{registered(nil)}},
		{name: "zero", servers: []fleet.Server{registered(map[string]int{"p": 0})}},
		{name: "one of two", servers: []fleet.Server{registered(lacks), registered(has)}},
		{name: "one unknown", servers: []fleet.Server{registered(lacks), registered(nil)}},
		{name: "handing over", servers: []fleet.Server{registered(lacks), draining}},
		{name: "only draining", servers: []fleet.Server{draining}},
		{name: "disabled", state: "disabled", servers: []fleet.Server{registered(has)}},
		{name: "none", servers: []fleet.Server{}},
	}, nil)
	f := func(r routing.Request, want string) {
		t.Helper()
		if got := at(routing.Place{}, table, modelWith(fleet.Step{}), r); got != want {
			t.Errorf("plan %q, want %q", got, want)
		}
	}
	f(routing.Request{}, "active handing over one of two one unknown unknown zero")
	f(routing.Request{Draining: true}, "handing over only draining")
	// A forced colo replaces the plan.
	f(routing.Request{Forced: "lacking"}, "lacking")
	f(routing.Request{Forced: "only draining"}, "")
	f(routing.Request{Forced: "only draining", Draining: true}, "only draining")
	f(routing.Request{Forced: "disabled"}, "")
	f(routing.Request{Forced: "nowhere"}, "")
}

// Servers register a new pool a moment after its documents. Until then its colos are asked.
func TestAPoolThatNoServerHasRegistered(t *testing.T) {
	lacks, has := []fleet.Server{registered(map[string]int{})}, []fleet.Server{registered(map[string]int{"p": 1})}
	table := tableOf([]site{{name: "a", servers: lacks}, {name: "b", servers: lacks}, {name: "c", servers: has}}, nil)
	f := func(step fleet.Step, want string, unknown bool) {
		t.Helper()
		planner := routing.NewPlanner(routing.Place{})
		e := planner.Explain(table, modelWith(step), routing.Request{})
		if got := at(routing.Place{}, table, modelWith(step), routing.Request{}); got != want || e.PoolsUnknown != unknown {
			t.Errorf("%+v: plan %q, pools unknown %v, want %q, %v", step, got, e.PoolsUnknown, want, unknown)
		}
	}
	f(fleet.Step{}, "c", false)
	f(fleet.Step{Colos: []string{"b", "a"}}, "b a", true)
}

// Full colos come after the others of their step, and those that are not reached after these; none is left out.
func TestLastColosOfAStep(t *testing.T) {
	table := tableOf([]site{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}, nil)
	seen := func(unreached, full string) func(*fleet.Colo) routing.Seen {
		return func(c *fleet.Colo) routing.Seen {
			return routing.Seen{Unreached: strings.Contains(unreached, c.Name), Full: strings.Contains(full, c.Name)}
		}
	}
	for _, pick := range []string{fleet.PickOrder, fleet.PickLatency} {
		f := func(s fleet.Step, unreached, full, want string) {
			t.Helper()
			s.Pick = pick
			if got := at(routing.Place{}, table, modelWith(s, fleet.Step{Pick: pick}), routing.Request{Seen: seen(unreached, full)}); got != want {
				t.Errorf("%s, unreached %q, full %q: plan %q, want %q", pick, unreached, full, got, want)
			}
		}
		f(fleet.Step{}, "a", "b", "c d b a")
		f(fleet.Step{}, "ab", "ac", "d c a b")
		f(fleet.Step{}, "abcd", "abcd", "a b c d")
		f(fleet.Step{Colos: []string{"a"}}, "a", "", "a b c d")
		f(fleet.Step{Attempts: 1}, "a", "b", "c d b a")
		f(fleet.Step{Colos: []string{"a", "b"}, Attempts: 1}, "a", "b", "b c d a")
	}
	plan := routing.NewPlanner(routing.Place{}).Plan(nil, table, modelWith(fleet.Step{Colos: []string{"c"}}, fleet.Step{}), routing.Request{Seen: seen("a", "b")})
	for i, want := range []routing.Stop{{Step: 1}, {Step: 2}, {Step: 2, Last: routing.ReasonFull}, {Step: 2, Last: routing.ReasonUnreached}} {
		if plan[i].Step != want.Step || plan[i].Last != want.Last {
			t.Errorf("stop %d is in step %d, last %q; want step %d, last %q", i, plan[i].Step, plan[i].Last, want.Step, want.Last)
		}
	}
}
