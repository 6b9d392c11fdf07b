package admission

import "colonnade/permits"

// State is one pool as metrics and debug pages show it.
type State struct {
	Pool           string                    `json:"pool"`
	Limit          int                       `json:"limit"`
	Held           int                       `json:"held"`
	Free           int                       `json:"free"`
	Queued         int                       `json:"queued"`
	Draining       bool                      `json:"draining"`
	ExpectedMillis *int64                    `json:"expected_wait_ms"` // of a newcomer; null while the rate is not known
	RatePerSecond  float64                   `json:"rate_per_second"`  // of permits that come free when all slots are taken; 0 while not known
	FullSeconds    float64                   `json:"full_seconds"`     // without a free slot, since the pool began
	Granted        uint64                    `json:"granted"`
	Released       uint64                    `json:"released"`
	Refused        map[permits.Reason]uint64 `json:"refused"`
	Endpoints      []EndpointState           `json:"endpoints"`
}

// EndpointState is one endpoint of a pool.
type EndpointState struct {
	ID          string `json:"id"` // empty once no document names it
	URL         string `json:"url"`
	State       string `json:"state"` // up, down or ejected; gone once no document names it
	Concurrency int    `json:"concurrency"`
	Held        int    `json:"held"`
	Full        bool   `json:"full"` // the engine said so a moment ago
}

// State reads the pool's state.
func (p *Pool) State() State {
	snapshot := p.permits.Snapshot()
	s := State{
		Pool: p.name, Limit: snapshot.Limit, Held: snapshot.Held, Free: snapshot.Free, Queued: snapshot.Queued,
		Draining: snapshot.Draining, RatePerSecond: snapshot.Rate, FullSeconds: snapshot.Full.Seconds(),
		Granted: snapshot.Granted, Released: snapshot.Released, Refused: snapshot.Refused,
	}
	if snapshot.Known {
		ms := snapshot.Expected.Milliseconds()
		s.ExpectedMillis = &ms
	}
	documents := *p.endpoints.Load()
	p.desk.mu.Lock()
	defer p.desk.mu.Unlock()
	for _, e := range snapshot.Endpoints {
		state := EndpointState{URL: e.ID, State: "gone", Concurrency: e.Concurrency, Held: e.Held, Full: e.Full}
		if doc, ok := documents[e.ID]; ok {
			state.ID = doc.ID
			if engine, ok := p.desk.engines[e.ID]; ok {
				state.State = engine.health.state()
			}
		}
		s.Endpoints = append(s.Endpoints, state)
	}
	return s
}
