package fleettest

import (
	"slices"

	"colonnade/internal/testkit"
	"colonnade/onebox"
)

// StartServer starts one more server of a colo, or one again that EndNode has ended, and waits until the entry knows it.
func (f *Fleet) StartServer(colo, name string) {
	f.T.Helper()
	NeedsFleet(f.T, "a colo server that starts")
	if err := f.Fleet.StartServer(colo, name); err != nil {
		f.T.Fatal(err)
	}
	boot := f.Server(name).Boot
	testkit.WaitFor(f.T, "the entry to know "+name, func() bool {
		return f.FleetPage(f.Entry.Admin).Field("servers/"+colo+"/"+name, "boot") == boot
	})
}

// Server returns a colo server by its name.
func (f *Fleet) Server(name string) onebox.ColoNode {
	f.T.Helper()
	at := slices.IndexFunc(f.Colos, func(n onebox.ColoNode) bool { return n.Node == name })
	if at < 0 {
		f.T.Fatalf("no colo server %s", name)
	}
	return f.Colos[at]
}

// Home waits until the servers of a colo agree on the home of a pool, and returns it.
func (f *Fleet) Home(colo, pool string) onebox.ColoNode {
	f.T.Helper()
	home := ""
	testkit.WaitFor(f.T, "one home of pool "+pool, func() bool {
		homes := map[string]bool{}
		for _, p := range f.PoolPages(colo) {
			if p.Pool == pool {
				homes[p.Home], home = true, p.Home
			}
		}
		return len(homes) == 1 && home != ""
	})
	return f.Server(home)
}
