package fleet_test

import (
	"fmt"
	"reflect"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

func TestAliases(t *testing.T) {
	table := tableOf(t,
		"models/b", "aliases: [default, a, b, shared]",
		"models/c", "aliases: [default, shared, fine]",
		"models/a", "aliases: [shared]",
	)
	f := func(name, want string) {
		t.Helper()
		if m, ok := table.Model(name); !ok || m.Name != want {
			t.Errorf("Model(%q) = %+v, want %q", name, m, want)
		}
	}
	f("a", "a") // names beat aliases
	f("b", "b")
	f("default", "b") // the lexically first
	f("shared", "a")
	f("fine", "c")
	if _, ok := table.Model("absent"); ok {
		t.Error("a model that is not there was found")
	}
	want := []fleet.Conflict{
		{What: "alias", Value: "a", Winner: "models/a", Loser: "models/b"},
		{What: "alias", Value: "shared", Winner: "models/a", Loser: "models/b"},
		{What: "alias", Value: "default", Winner: "models/b", Loser: "models/c"},
		{What: "alias", Value: "shared", Winner: "models/a", Loser: "models/c"},
	}
	if !reflect.DeepEqual(table.Conflicts, want) {
		t.Errorf("conflicts %+v\nwant %+v", table.Conflicts, want)
	}
}

// The first document has the URL, whatever its name.
func TestOneEndpointForEachURL(t *testing.T) {
	table := tableOf(t,
		"endpoints/ams/b", "url: http://H:80/v1/\npool: p",
		"endpoints/ams/a", "url: http://h\npool: q",
		"endpoints/fra/c", "url: http://h\npool: p",
	)
	if len(table.Endpoints("ams", "p")) != 1 || len(table.Endpoints("ams", "q")) != 0 || len(table.EndpointsOf("ams")) != 1 || len(table.EndpointsOf("fra")) != 1 {
		t.Errorf("ams has %+v", table.EndpointsOf("ams"))
	}
	want := []fleet.Conflict{{What: "url", Value: "http://h", Winner: "endpoints/ams/b", Loser: "endpoints/ams/a"}}
	if !reflect.DeepEqual(table.Conflicts, want) {
		t.Errorf("conflicts %+v", table.Conflicts)
	}
}

// All servers of a colo are registered, sorted by node, but those whose leases have expired.
func TestRegisteredServers(t *testing.T) {
	table := tableOf(t,
		"servers/ams/b", "{address: 'h:1', boot: b, state: draining}",
		"servers/ams/c", "{address: 'h:3', boot: b}",
		"servers/ams/a", "{address: 'h:2', boot: b}",
		"servers/fra/a", "{address: 'h:4', boot: b}",
	)
	f := func(table *fleet.Table, colo string, want ...string) {
		t.Helper()
		if got := names(table.Registered(colo), func(s *fleet.Server) string { return s.Node }); !reflect.DeepEqual(got, want) {
			t.Errorf("registered in %s: %q, want %q", colo, got, want)
		}
	}
	f(table, "ams", "a", "b", "c")
	expired := table.WithStoreState(fleet.StoreState{
		ExpiredLeases: []string{"servers/ams/b", "servers/fra/a"}, Listed: 7, ServersChanged: map[string]int64{"ams": 5},
	})
	f(expired, "ams", "a", "c")
	f(expired, "fra")
	f(table, "ams", "a", "b", "c")
	if expired.Listed != 7 || expired.ServersRevision("ams") != 5 || expired.ServersRevision("fra") != 0 {
		t.Errorf("listed at %d, servers changed at %d", expired.Listed, expired.ServersRevision("ams"))
	}
}

func TestListsAreSorted(t *testing.T) {
	table := tableOf(t,
		"models/z", "pool: late", "models/a", "{}", "models/m/n", "pool: early",
		"pools/described", "{}",
		"colos/fra", "{}", "colos/ams", "{}",
		"servers/ams/1", "{address: 'h:2', boot: b}", "servers/ams-x/0", "{address: 'h:3', boot: b}",
		"endpoints/ams/b", "url: http://b\npool: of-endpoint", "endpoints/ams/a", "url: http://a\npool: of-endpoint", "endpoints/ams/c/d", "url: http://c\npool: x",
		"accounts/b", "{}", "accounts/a", "{}",
		"defaults", "origins: ['https://b.example', 'HTTP://A.example:80', 'https://a.example:443', 'https://a.example:80', 'app://c', '*']",
	)
	f := func(what string, got []string, want ...string) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	f("models", names(table.Models(), func(m *fleet.Model) string { return m.Name }), "a", "m/n", "z")
	f("pools", names(table.Pools(), func(p *fleet.Pool) string { return p.Name }), "a", "described", "early", "late", "of-endpoint", "x")
	f("colos", names(table.Colos(), func(c *fleet.Colo) string { return c.Name }), "ams", "fra")
	f("servers", names(table.Servers("ams"), func(s *fleet.Server) string { return s.Node }), "1")
	f("endpoints", names(table.Endpoints("ams", "of-endpoint"), func(e *fleet.Endpoint) string { return e.ID }), "a", "b")
	f("endpoints of ams", names(table.EndpointsOf("ams"), func(e *fleet.Endpoint) string { return e.ID }), "a", "b", "c/d")
	f("accounts", names(table.Accounts(), func(a *fleet.Account) string { return a.Name }), "a", "b")
	f("origins", table.Origins(), "https://b.example", "http://a.example", "https://a.example", "https://a.example:80", "app://c", "*")
	if table.Servers("nowhere") != nil || table.Endpoints("nowhere", "p") != nil || table.EndpointsOf("nowhere") != nil {
		t.Error("something is nowhere")
	}
	if p := table.Pool("undescribed"); p.Name != "undescribed" || p.Queue.Limit != 256 {
		t.Errorf("pool %+v", p)
	}
	if _, ok := table.Colo("nowhere"); ok {
		t.Error("nowhere is a colo")
	}
	if _, ok := table.Account("absent"); ok {
		t.Error("an account that is not there was found")
	}
}

// tableOf returns the table of good documents: key, value, key, value…
func tableOf(t *testing.T, pairs ...string) *fleet.Table {
	t.Helper()
	docs := document.NewSet()
	for i := 0; i < len(pairs); i += 2 {
		if err := docs.Put(pairs[i], []byte(pairs[i+1]), int64(i/2+1)); err != nil {
			t.Fatal(err)
		}
	}
	return docs.Table()
}

func names[T any](list []T, name func(T) string) []string {
	var out []string
	for _, v := range list {
		out = append(out, name(v))
	}
	return out
}

func BenchmarkTable(b *testing.B) {
	docs := document.NewSet()
	put := func(key, value string) {
		if err := docs.Put(key, []byte(value), 1); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 1000 {
		put(fmt.Sprintf("models/m%d", i), "aliases: [x]\nretry: {errors: 1}")
		put(fmt.Sprintf("accounts/a%d", i), "weight: 3")
		put(fmt.Sprintf("endpoints/ams/e%d", i), fmt.Sprintf("url: http://h%d\npool: p%d", i, i%50))
	}
	b.Run("one model changed", func(b *testing.B) {
		for b.Loop() {
			put("models/m7", "beta: true")
			docs.Table()
		}
	})
	b.Run("defaults changed", func(b *testing.B) {
		for b.Loop() {
			put("defaults", "model: {beta: true}")
			docs.Table()
		}
	})
}
