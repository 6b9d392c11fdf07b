package fleet_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"colonnade/fleet"
)

// Of more pools than a registration may have, none is registered: an absent field means that they are not known.
func TestRegisteredPoolsAreBounded(t *testing.T) {
	many := map[string]int{}
	for i := range 257 {
		many[fmt.Sprint(i)] = 1
	}
	if got := fleet.RegisteredPools(many); got != nil {
		t.Errorf("%d of 257 pools are registered", len(got))
	}
	got := fleet.RegisteredPools(map[string]int{"a": -1, "b": 16})
	if len(got) != 2 || got["a"] != 0 || got["b"] != 16 {
		t.Errorf("got %v", got)
	}
	for pools, want := range map[string]map[string]int{`"pools":{}`: {}, `"pools":null`: nil} {
		text, err := json.Marshal(fleet.Server{Pools: want})
		if err != nil || strings.Contains(string(text), pools) != (want != nil) {
			t.Errorf("pools %v are written as %s, %v", want, text, err)
		}
	}
}
