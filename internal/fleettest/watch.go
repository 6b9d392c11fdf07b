package fleettest

import (
	"strings"

	"colonnade/internal/oracle"
)

// Watch starts the oracle, which checks at the test's end that nothing was leaked. idle connections may stay open.
func (f *Fleet) Watch(idle int) {
	f.T.Helper()
	f.WatchWith(oracle.Config{IdleConnections: idle})
}

// WatchShared is watch for a test beside which others run. What it leaves in the process shows at the end of all.
func (f *Fleet) WatchShared(idle int) {
	f.T.Helper()
	f.WatchWith(oracle.Config{IdleConnections: idle, Shared: true})
}

func (f *Fleet) WatchWith(c oracle.Config) {
	f.T.Helper()
	// Everything that is opened once and kept is opened before.
	f.Chat(`{"model":"demo-chat","messages":[],"max_tokens":1}`)
	c.EventDirs, c.EngineStats = []string{f.Entry.DataDir}, f.engineStats
	for _, admin := range f.Admins() {
		c.AdminURLs = append(c.AdminURLs, "http://"+admin)
	}
	c.Addresses = f.addresses()
	o := oracle.New(f.T, c)
	f.T.Cleanup(func() { // runs before the fleet ends, since it was registered later
		f.Client.CloseIdleConnections()
		o.Check(f.T)
	})
}

// addresses are those of all nodes, and of all that they connect to.
func (f *Fleet) addresses() []string {
	all := []string{f.Entry.Address, strings.TrimPrefix(f.Etcd, "http://")}
	for _, n := range f.Colos {
		all = append(all, n.Address)
	}
	for _, admin := range f.Admins() {
		for key, doc := range f.FleetPage(admin).Documents {
			if at, ok := doc["url"].(string); ok && strings.HasPrefix(key, "endpoints/") {
				_, address, _ := strings.Cut(at, "://")
				all = append(all, strings.TrimSuffix(address, "/"))
			}
		}
	}
	return all
}

func (f *Fleet) engineStats() ([]oracle.EngineStats, error) {
	var all []oracle.EngineStats
	for _, e := range f.Engines {
		s := e.Simulated.Stats()
		all = append(all, oracle.EngineStats{Name: e.Colo + "/" + e.ID, Running: s.Running, Waiting: s.Waiting})
	}
	return all, nil
}
