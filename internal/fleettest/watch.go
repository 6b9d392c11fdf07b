package fleettest

import (
	"strings"

	"colonnade/internal/oracle"
)

// Watch has the oracle compare the whole process before and after the test, which must be alone: Watch panics in a parallel
// test. At most idle connections may stay open.
func (f *Fleet) Watch(idle int) {
	f.T.Helper()
	f.T.Setenv("FLEETTEST_ALONE", "1") // nothing reads it; no parallel test may set an environment variable
	f.WatchWith(oracle.Config{IdleConnections: idle})
}

// WatchShared is Watch for a test that runs beside others: the oracle counts the test's own goroutines, connections and
// files. Main detects everything else after the last test.
func (f *Fleet) WatchShared(idle int) {
	f.T.Helper()
	f.WatchWith(oracle.Config{IdleConnections: idle, Shared: true})
}

// WatchWith is Watch with settings of the oracle. It fills in what it knows of the fleet.
func (f *Fleet) WatchWith(c oracle.Config) {
	f.T.Helper()
	// A request opens beforehand what is opened once and kept.
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

// addresses returns those of all nodes and of all engines.
func (f *Fleet) addresses() []string {
	all := []string{f.Entry.Address}
	if f.Etcd != "" {
		all = append(all, strings.TrimPrefix(f.Etcd, "http://"))
	}
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
