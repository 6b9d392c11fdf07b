package homes

import "time"

// States of an engine, from the view of one server.
const (
	StateOwned     = "owned"     // the server may grant on it
	StateWanted    = "wanted"    // the server is the home of its pool, and may not grant on it yet
	StateElsewhere = "elsewhere" // the home of its pool is another server
)

// EngineState is the ownership of one engine, from the view of one server.
type EngineState struct {
	URL           string    `json:"url"`
	State         string    `json:"state"`                // one of the constants above
	Owner         string    `json:"owner,omitempty"`      // other process that owns it, as node/boot
	BlockedBy     string    `json:"blocked_by,omitempty"` // process that must give the engine up first, as node/boot
	Why           string    `json:"why,omitempty"`        // why the server may not grant yet
	Since         time.Time `json:"since,omitzero"`       // when the server began to want it
	HeldElsewhere int       `json:"held_elsewhere"`       // requests of other servers on it
}

// heldOn returns how many requests other processes have on an engine.
func (o *Ownership) heldOn(url string) (held int) {
	for p, r := range o.records {
		if p != o.self {
			held += r.Held[url]
		}
	}
	return held
}

// State returns the ownership of one engine.
func (o *Ownership) State(url string) EngineState {
	s := EngineState{URL: url, State: StateElsewhere, HeldElsewhere: o.heldOn(url)}
	owners := o.owners(url)
	if len(owners) > 0 {
		s.Owner = owners[0].String()
	}
	c := o.claims[url]
	if c == nil {
		return s
	}
	if s.State = StateOwned; o.Grants(url) {
		return s
	}
	s.State, s.Since = StateWanted, c.since
	switch {
	case len(owners) > 0:
		s.BlockedBy, s.Why = owners[0].String(), "another process owns it"
	case !o.registered:
		s.Why = "this server is not registered"
	case !o.notBefore.IsZero():
		s.Why = "the store was restored a moment ago"
	default:
		s.Why = "the store has not shown this server's record yet"
	}
	return s
}
