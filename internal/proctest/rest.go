package proctest

import (
	"colonnade/analytics"
	"colonnade/internal/oracle"
)

// CheckRest fails the test unless the fleet comes to rest: no permit held, no request queued, no engine busy, and /debug/check
// of each node is content.
func (f *Fleet) CheckRest() {
	f.T.Helper()
	c := oracle.Config{NoEvents: true, Shared: true, EngineStats: f.engineStats}
	for _, n := range f.Running() {
		c.AdminURLs = append(c.AdminURLs, "http://"+n.Admin)
	}
	oracle.New(f.T, c).Check(f.T)
}

func (f *Fleet) engineStats() ([]oracle.EngineStats, error) {
	all := f.workerStats()
	for _, e := range f.Engines {
		s := e.Stats()
		all = append(all, oracle.EngineStats{Name: e.name(), Running: s.Running, Waiting: s.Waiting})
	}
	return all, nil
}

// End drains all nodes, and compares their events with what the clients have seen: each request that was answered has one final
// event of an entry, and each event that a node has begun has an end. A server that was killed and never started again leaves
// events without an end.
func (f *Fleet) End(all Results) {
	f.T.Helper()
	running := f.Running()
	for _, n := range running {
		n.Terminate()
	}
	var dirs []string
	for _, n := range running {
		n.awaitLeave()
		dirs = append(dirs, n.Dir)
	}
	events, err := oracle.ReadEvents(dirs...)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, problem := range events.Problems(false, true) {
		f.T.Error(problem)
	}
	finals := map[string]int{}
	for _, e := range events.Ends {
		if e.Kind == analytics.KindRequest {
			finals[e.ClientRequestID]++
		}
	}
	for _, r := range all {
		if n := finals[r.ID]; n > 1 || n == 0 && r.Status != 0 {
			f.T.Errorf("%d final events of %v", n, r)
		}
	}
}
