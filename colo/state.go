package colo

import (
	"colonnade/admission"
	"colonnade/analytics"
)

// Pools describes every pool, for /debug/pools.
func (s *Server) Pools() []admission.State {
	var states []admission.State
	for _, p := range s.desk.Pools() {
		states = append(states, p.State())
	}
	return states
}

// Check returns every invariant that does not hold.
func (s *Server) Check() []error {
	if err := s.desk.Check(); err != nil {
		return []error{err}
	}
	return nil
}

// poolStates is what the metrics read at each scrape.
func (s *Server) poolStates() []analytics.PoolState {
	var states []analytics.PoolState
	for _, p := range s.Pools() {
		m := analytics.PoolState{
			Pool:        p.Pool,
			Limit:       p.Limit,
			Held:        p.Held,
			Queued:      p.Queued,
			Active:      p.Held + p.Queued,
			FullSeconds: p.FullSeconds,
			Endpoints:   map[string]int{},
			Refused:     map[string]uint64{},
		}
		for _, e := range p.Endpoints {
			m.Endpoints[e.State]++
		}
		for reason, n := range p.Refused {
			m.Refused[string(reason)] = n
		}
		states = append(states, m)
	}
	return states
}
