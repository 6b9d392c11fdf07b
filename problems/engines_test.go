package problems_test

import (
	"net/netip"
	"testing"

	"colonnade/fleet"
	"colonnade/problems"
)

// Two endpoints that lead to one address, port and path are one engine, whose slots count twice.
func TestSharedEngines(t *testing.T) {
	t.Parallel()
	resolved := map[string][]netip.Addr{
		"gpu-1": {netip.MustParseAddr("10.0.0.1")}, "gpu-1.rack.example": {netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("::ffff:10.0.0.1")},
	}
	f := func(one, two string, shared bool) {
		t.Helper()
		all := []*fleet.Endpoint{{Colo: "ams", ID: "one", URL: one}, {Colo: "ams", ID: "two", URL: two}}
		want := []string{}
		if shared {
			want = append(want, "warning engine_shared endpoints/ams/two")
		}
		check(t, problems.SharedEngines(all, func(host string) []netip.Addr { return resolved[host] }), want...)
	}
	f("http://localhost:8000", "http://127.0.0.1:8000", true)
	f("http://[::1]:8000", "http://LOCALHOST.:8000", true)
	f("http://localhost:8000", "http://localhost:8000/", true)
	f("http://127.0.0.1:8000", "http://[::1]:8000", false) // two listeners
	f("http://127.0.0.1:8000", "http://127.0.0.2:8000", false)
	f("http://localhost:8000", "http://127.0.0.1:8001", false)
	f("http://localhost", "http://127.0.0.1:80", true)
	f("http://localhost:8000/a", "http://127.0.0.1:8000/b", false)
	f("http://gpu-1:8000", "http://gpu-1.rack.example:8000", true)
	f("http://gpu-1:8000", "http://10.0.0.2:8000", false)
	f("http://unknown:8000", "http://unknown2:8000", false)
	check(t, problems.OfTable(table(t, "colos/ams", "{}", "models/m", "{pool: p}", "endpoints/ams/a", "{url: 'http://localhost:1', pool: p}",
		"endpoints/ams/b", "{url: 'http://127.0.0.1:1', pool: p}"), problems.Scope{}), "warning engine_shared endpoints/ams/b")
}
