package colo

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"colonnade/admission"
	"colonnade/homes"
	"colonnade/internal/wording"
	"colonnade/permits"
)

// PoolState is a pool as /debug/pools shows it.
type PoolState struct {
	Colo string `json:"colo"`
	Node string `json:"node"`
	// Home is the node that grants the pool's permits; Here says that it is this server.
	Home string `json:"home"`
	Here bool   `json:"here"`
	// CopyAgeSeconds is the age of the copy of what the home has learned, if this server keeps one, as the next home does.
	CopyAgeSeconds *float64            `json:"copy_age_seconds,omitempty"`
	Ownership      []homes.EngineState `json:"ownership"` // of the pool's engines
	admission.Stats
}

// PoolStates returns every pool for /debug/pools, each with at most the given number of accounts.
func (s *Server) PoolStates(accounts int) []PoolState {
	states := []PoolState{}
	for _, p := range s.pools.Pools() {
		states = append(states, PoolState{
			Colo: s.config.Colo, Node: s.config.Node, Home: s.config.Node, Here: true, Ownership: []homes.EngineState{},
			CopyAgeSeconds: s.takeovers.copyAge(p.Name()), Stats: p.DetailedStats(accounts),
		})
	}
	return states
}

// Pools returns the state of every pool, without its accounts; the metrics read it at each scrape.
func (s *Server) Pools() []permits.Stats {
	var all []permits.Stats
	for _, p := range s.pools.Pools() {
		all = append(all, p.Stats())
	}
	return all
}

// Slots returns the slots of the pools that are wanted. They are not known while another server may still grant all slots of one of these: such
// a pool would look as though its engines were down.
func (s *Server) Slots(wanted func(pool string) bool) (slots map[string]int, known bool) {
	return slotsOf(s.Pools(), wanted)
}

func slotsOf(pools []permits.Stats, wanted func(pool string) bool) (slots map[string]int, known bool) {
	slots = map[string]int{}
	for _, p := range pools {
		if !wanted(p.Pool) {
			continue
		}
		slots[p.Pool] = p.Limit
		if p.Limit == 0 && slices.ContainsFunc(p.Endpoints, func(e permits.EndpointStats) bool { return e.Withheld }) {
			return nil, false
		}
	}
	return slots, true
}

// PoolDown is a pool that has engines, none of which is up.
type PoolDown struct {
	Pool    string
	Models  []string // that the pool serves, sorted
	Engines []string // why each is out
}

// PoolsDown returns the pools without any engine that is up, except those of which another server may grant the slots, and those whose engines
// were all taken out by operators.
func (s *Server) PoolsDown() (down []PoolDown) {
	models := s.table().Models()
	for _, p := range s.Pools() {
		d := PoolDown{Pool: p.Pool}
		if d.Engines = whyOut(p.Endpoints); len(d.Engines) == 0 {
			continue
		}
		for _, m := range models {
			if m.Pool == p.Pool {
				d.Models = append(d.Models, m.Name)
			}
		}
		down = append(down, d)
	}
	return down
}

// whyOut says why each of some endpoints is out; empty if one of them is up, if another server knows, or if all drain.
func whyOut(endpoints []permits.EndpointStats) (why []string) {
	failed := false
	for _, e := range endpoints {
		switch {
		case e.Removed:
			continue
		case e.Withheld, e.State == "up":
			return nil
		}
		failed = failed || !e.Draining
		text := cmp.Or(e.ID, e.URL) + " " + e.State
		if e.StateSeconds != nil {
			text += " for " + wording.Brief(wording.Seconds(*e.StateSeconds))
		}
		if e.Reason != "" {
			text += ": " + e.Reason
		}
		why = append(why, text)
	}
	if !failed {
		return nil
	}
	return why
}

// DeadEndpoints returns the keys of suspect endpoints (see [fleet.Table]) that have died.
func (s *Server) DeadEndpoints() []string { return s.pools.DeadEndpoints() }

// SetFence sets until when the server may grant permits; see [admission.Manager.SetFence].
func (s *Server) SetFence(until time.Time) { s.pools.SetFence(until) }

// GrantsEnabled reports whether the server may grant permits now.
func (s *Server) GrantsEnabled() bool { return s.pools.GrantsEnabled() }

// Check returns every invariant that does not hold.
func (s *Server) Check() []error {
	var wrong []error
	if err := s.pools.Check(); err != nil {
		wrong = append(wrong, err)
	}
	// Counted twice, so that a request that begins or ends meanwhile does not look like a leak.
	before := s.inflight.Count()
	held := 0
	for _, p := range s.pools.Pools() {
		held += p.Load().Held
	}
	if held > 0 && before == 0 && s.inflight.Count() == 0 {
		wrong = append(wrong, fmt.Errorf("%d permits are held, and no request is in flight", held))
	}
	return wrong
}
