package homes_test

import (
	"fmt"
	"slices"
	"testing"

	"colonnade/fleet"
	"colonnade/homes"
)

func servers(n int) []*fleet.Server {
	var out []*fleet.Server
	for i := range n {
		out = append(out, &fleet.Server{Colo: "ams", Node: fmt.Sprintf("ams-%d", i+1), State: fleet.StateActive, Protocol: fleet.ProtocolRange{Min: 1, Max: 3}})
	}
	return out
}

func TestHomeDoesNotDependOnOrder(t *testing.T) {
	all := servers(5)
	for i := range 200 {
		pool := fmt.Sprintf("pool-%d", i)
		want, _ := homes.Home(pool, all)
		reversed := slices.Clone(all)
		slices.Reverse(reversed)
		if got, _ := homes.Home(pool, reversed); got != want {
			t.Fatalf("Home(%s) = %s, and %s with the servers in another order", pool, want.Node, got.Node)
		}
	}
}

func TestHomesAreSpread(t *testing.T) {
	count := map[string]int{}
	for i := range 3000 {
		home, _ := homes.Home(fmt.Sprintf("llama-%d", i), servers(3))
		count[home.Node]++
	}
	for node, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("%s is the home of %d of 3000 pools, want about 1000", node, n)
		}
	}
}

func TestLeavingMovesOnlyOwnPools(t *testing.T) {
	all := servers(4)
	for i := range 500 {
		pool := fmt.Sprintf("pool-%d", i)
		before := homes.Rank(pool, all)
		after := homes.Rank(pool, all[1:]) // ams-1 has left
		want := slices.DeleteFunc(slices.Clone(before), func(s *fleet.Server) bool { return s == all[0] })
		if !slices.Equal(after, want) {
			t.Fatalf("Rank(%s) changed its order when another server left", pool)
		}
	}
}

func TestDrainingServerIsNoHome(t *testing.T) {
	all := servers(2)
	all[0].State = fleet.StateDraining
	if home, ok := homes.Home("p", all); !ok || home != all[1] {
		t.Errorf("Home = %v, %v; want ams-2", home, ok)
	}
	all[1].State = fleet.StateDraining
	if _, ok := homes.Home("p", all); ok {
		t.Error("a pool has a home though every server drains")
	}
}
