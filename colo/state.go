package colo

import (
	"fmt"
	"time"

	"colonnade/admission"
	"colonnade/analytics/metrics"
)

// PoolState is a pool as /debug/pools shows it, and whose.
type PoolState struct {
	Colo string `json:"colo"`
	Node string `json:"node"`
	admission.Census
}

// PoolStates describes every pool, for /debug/pools, and in each names at most so many accounts.
func (s *Server) PoolStates(accounts int) []PoolState {
	states := []PoolState{}
	for _, p := range s.pools.Pools() {
		states = append(states, PoolState{Colo: s.config.Colo, Node: s.config.Node, Census: p.Census(accounts)})
	}
	return states
}

// Pools says how every pool is.
func (s *Server) Pools() []admission.State {
	var states []admission.State
	for _, p := range s.pools.Pools() {
		states = append(states, p.State())
	}
	return states
}

// DeadEndpoints returns the keys of suspect endpoints (see [fleet.Table]) that have died.
func (s *Server) DeadEndpoints() []string { return s.pools.DeadEndpoints() }

// SetFence says how long the server may grant permits; see [admission.Manager.GrantUntil].
func (s *Server) SetFence(until time.Time) { s.pools.SetFence(until) }

// GrantsEnabled says whether it may now.
func (s *Server) GrantsEnabled() bool { return s.pools.GrantsEnabled() }

// Check returns every invariant that does not hold.
func (s *Server) Check() []error {
	var wrong []error
	if err := s.pools.Check(); err != nil {
		wrong = append(wrong, err)
	}
	// Looked at twice, so that a request that comes or goes meanwhile is no leak.
	before := s.inHand.Count()
	held := 0
	for _, p := range s.pools.Pools() {
		held += p.Load().Held
	}
	if held > 0 && before == 0 && s.inHand.Count() == 0 {
		wrong = append(wrong, fmt.Errorf("%d permits are held, and no request is in hand", held))
	}
	return wrong
}

// poolStates is what the metrics read at each scrape.
func (s *Server) poolStates() []metrics.PoolState {
	var states []metrics.PoolState
	for _, p := range s.Pools() {
		m := metrics.PoolState{
			Pool:        p.Pool,
			Limit:       p.Limit,
			Held:        p.Held,
			Queued:      p.Queued,
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
