package admission

import (
	"time"

	"colonnade/permits"
)

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
	State       string `json:"state"`       // up, down or ejected; gone once no document names it
	Concurrency int    `json:"concurrency"` // the limit in force
	Held        int    `json:"held"`
	Taken       int    `json:"taken"` // slots that another pool still holds
	Full        bool   `json:"full"`  // the engine said so a moment ago

	StateSeconds *float64 `json:"state_seconds"` // for how long State has been so; null: since the server knows it
	Why          string   `json:"why,omitempty"` // what the last health check found; of an ejected one, the last failure

	Auto *AutoState `json:"auto,omitempty"` // of a limit that is found; without it Concurrency is the document's
}

// AutoState is what is known of an endpoint that finds its own limit.
type AutoState struct {
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	Samples uint64 `json:"samples"` // answers that have shown anything
}

// State reads the pool's state.
func (p *Pool) State() State { return p.state(p.permits.Snapshot()) }

func (p *Pool) state(snapshot permits.Snapshot) State {
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
	now := time.Now()
	p.manager.mu.Lock()
	defer p.manager.mu.Unlock()
	for _, e := range snapshot.Endpoints {
		state := EndpointState{
			URL: e.ID, State: "gone", Concurrency: e.Concurrency, Held: e.Held, Taken: e.Taken, Full: e.Full,
		}
		if doc, ok := documents[e.ID]; ok {
			state.ID = doc.ID
			if a := doc.Auto; a != nil {
				state.Auto = &AutoState{Min: a.Min, Max: a.Max}
			}
			if engine, ok := p.manager.engines[e.ID]; ok {
				engine.describe(&state, now)
			}
		}
		s.Endpoints = append(s.Endpoints, state)
	}
	return s
}

// describe says how the engine is. The caller holds the manager's mutex.
func (e *engine) describe(s *EndpointState, now time.Time) {
	s.State, s.Why = e.health.state(), e.health.reason()
	if !e.since.IsZero() {
		seconds := max(0, now.Sub(e.since).Seconds())
		s.StateSeconds = &seconds
	}
	if s.Auto != nil && e.gradient != nil {
		s.Auto.Samples = e.gradient.samples
	}
}
