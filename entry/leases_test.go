package entry

import (
	"slices"
	"testing"

	"colonnade/fleet"
	"colonnade/forwarding/liveness"
	"colonnade/forwarding/peer"
)

// The watch of servers learns each table once: its servers, and which of them have lost their lease.
func TestRegistrations(t *testing.T) {
	t.Parallel()
	table := tableOf(t, "key: models/m\n"+twoServers)
	next := registrations(func() *fleet.Table { return table })
	f := func(expired ...string) {
		t.Helper()
		var want []liveness.Registered
		for _, s := range []peer.Server{
			{Colo: "ams", Node: "ams-1", Address: "127.0.0.1:1", Boot: "x", Protocol: 1},
			{Colo: "fra", Node: "fra-1", Address: "127.0.0.1:2", Boot: "x", Protocol: 1},
		} {
			want = append(want, liveness.Registered{Server: s, Expired: slices.Contains(expired, s.Node)})
		}
		if got, changed := next(); !changed || !slices.Equal(got, want) {
			t.Errorf("got %+v %v, want %+v", got, changed, want)
		}
		if got, changed := next(); changed || got != nil {
			t.Errorf("got %+v %v of a table that is known", got, changed)
		}
	}
	f()
	table = table.WithStoreState(fleet.StoreState{ExpiredLeases: []string{"endpoints/ams/e", "servers/ams/ams-1"}})
	f("ams-1")
	table = table.WithStoreState(fleet.StoreState{})
	f()
	table = tableOf(t, "key: models/m\n")
	if got, changed := next(); !changed || len(got) != 0 {
		t.Errorf("got %+v %v of a table without servers", got, changed)
	}
}
