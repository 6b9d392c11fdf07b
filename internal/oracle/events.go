package oracle

import (
	"errors"
	"fmt"
	"slices"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

// Events are the events of nodes by event id, without duplicates.
type Events struct {
	Begins map[string]analytics.Event
	Ends   map[string]analytics.Event

	Repeated map[string]int // by event id: the number of equal ends, if more than one
	Torn     int            // segments that end inside a line, where their writers were killed
}

// ReadEvents reads the events below the directories of nodes.
func ReadEvents(dirs ...string) (*Events, error) {
	all := &Events{Begins: map[string]analytics.Event{}, Ends: map[string]analytics.Event{}, Repeated: map[string]int{}}
	for _, dir := range dirs {
		for e, err := range journal.ReadDir(dir) {
			switch {
			case errors.Is(err, journal.ErrTorn):
				all.Torn++
			case err != nil:
				return nil, err
			default:
				all.add(e)
			}
		}
	}
	return all, nil
}

func (a *Events) add(e analytics.Event) {
	if e.Phase == analytics.PhaseBegin {
		a.Begins[e.EventID] = e
		return
	}
	if _, known := a.Ends[e.EventID]; known {
		a.Repeated[e.EventID] = max(a.Repeated[e.EventID], 1) + 1
	}
	a.Ends[e.EventID] = e
}

// Problems returns violations of what holds at rest: each begin has an end, and, if entries log here too, each request has
// exactly one final event of an entry, and no event has a field that the schema does not have there. Nodes that were restarted may have
// written an end twice, or part of a line.
func (a *Events) Problems(entries, restarted bool) []string {
	found := a.fieldProblems()
	for id, e := range a.Begins {
		if _, ended := a.Ends[id]; !ended {
			found = append(found, fmt.Sprintf("events: request %s: begin %s of node %s has no end", e.RequestID, id, e.Node))
		}
	}
	if !restarted {
		for id, n := range a.Repeated {
			found = append(found, fmt.Sprintf("events: request %s: event %s has %d ends, want 1", a.Ends[id].RequestID, id, n))
		}
		if a.Torn > 0 {
			found = append(found, fmt.Sprintf("events: %d segments end inside a line", a.Torn))
		}
	}
	if entries {
		found = append(found, a.finalProblems()...)
	}
	slices.Sort(found)
	return found
}

// finalProblems reports requests that do not have exactly one final event of an entry.
func (a *Events) finalProblems() []string {
	finals := map[string]int{}
	for _, events := range []map[string]analytics.Event{a.Begins, a.Ends} {
		for _, e := range events {
			if e.Kind == analytics.KindEngine { // about no request
				continue
			}
			n := finals[e.RequestID]
			if e.Kind == analytics.KindRequest && e.Phase == analytics.PhaseEnd {
				n++
			}
			finals[e.RequestID] = n
		}
	}
	var found []string
	for id, n := range finals {
		if n != 1 {
			found = append(found, fmt.Sprintf("events: request %s: %d final events of kind request, want 1", id, n))
		}
	}
	return found
}

func (o *Oracle) eventProblems() []string {
	if o.config.NoEvents {
		return nil
	}
	events, err := ReadEvents(o.config.EventDirs...)
	if err != nil {
		return []string{fmt.Sprintf("events: %v", err)}
	}
	return events.Problems(!o.config.EntriesElsewhere, o.config.Restarted)
}
