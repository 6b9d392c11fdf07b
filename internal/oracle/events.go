package oracle

import (
	"fmt"
	"maps"
	"slices"

	"colonnade/analytics"
)

// request is what the events say of one client request.
type request struct {
	begun  map[string]string // event id → node, of begins
	ended  map[string]int    // event id → how many ends
	finals int               // ends of kind request
}

// eventProblems reads what nodes logged: each begin has one end, nothing ends twice, and each request has exactly one
// final event of an entry.
func eventProblems(dirs []string, entries bool) []string {
	var found []string
	requests := map[string]*request{}
	for _, dir := range dirs {
		for e, err := range analytics.ReadDir(dir) {
			if err != nil {
				found = append(found, fmt.Sprintf("events: %v", err))
				continue
			}
			r := requests[e.RequestID]
			if r == nil {
				r = &request{begun: map[string]string{}, ended: map[string]int{}}
				requests[e.RequestID] = r
			}
			r.add(e)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(requests)) {
		found = append(found, requests[id].problems(id, entries)...)
	}
	return found
}

func (r *request) add(e analytics.Event) {
	if e.Phase == analytics.PhaseBegin {
		r.begun[e.EventID] = e.Node // a begin may be there more than once
		return
	}
	r.ended[e.EventID]++
	if e.Kind == analytics.KindRequest {
		r.finals++
	}
}

func (r *request) problems(id string, entries bool) []string {
	var found []string
	for event, node := range r.begun {
		if r.ended[event] == 0 {
			found = append(found, fmt.Sprintf("events: request %s: begin %s of node %s has no end", id, event, node))
		}
	}
	for event, n := range r.ended {
		if n > 1 {
			found = append(found, fmt.Sprintf("events: request %s: event %s has %d ends, want 1", id, event, n))
		}
	}
	if entries && r.finals != 1 {
		found = append(found, fmt.Sprintf("events: request %s: %d final events of kind request, want 1", id, r.finals))
	}
	return found
}
