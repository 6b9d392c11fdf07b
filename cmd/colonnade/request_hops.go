package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"colonnade/analytics"
)

// followedRequest is one request, hop by hop. The flag -json of request prints it.
type followedRequest struct {
	RequestID       string    `json:"request_id"`
	ClientRequestID string    `json:"client_request_id,omitempty"`
	Time            time.Time `json:"time"` // of its begin, by the clock of the first hop
	Account         string    `json:"account,omitempty"`
	Key             string    `json:"key,omitempty"`
	Model           string    `json:"model,omitempty"`
	Pool            string    `json:"pool,omitempty"`

	Hops         []hopView `json:"hops"`
	ClocksDiffer bool      `json:"clocks_differ"` // the hops are placed in their order, not by their clocks
}

// hopView is a request at one node, or one permit of it. All times are those of the node, since its own begin.
type hopView struct {
	Node     string            `json:"node"`
	Colo     string            `json:"colo,omitempty"`
	Kind     analytics.Kind    `json:"kind,omitempty"` // empty: a server that was visited, and has no event
	Endpoint string            `json:"endpoint,omitempty"`
	Engine   string            `json:"engine,omitempty"`
	Status   int               `json:"status,omitempty"`
	Outcome  analytics.Outcome `json:"outcome,omitempty"` // empty: it has not ended
	Code     string            `json:"code,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Attempts int               `json:"attempts,omitempty"`

	Offset     analytics.Milliseconds `json:"offset_ms"`               // of its begin, from that of the request; see ClocksDiffer
	Queued     analytics.Milliseconds `json:"queued_ms,omitempty"`     // in all
	Dispatched analytics.Milliseconds `json:"dispatched_ms,omitempty"` // to the engine, since the begin of the hop
	FirstByte  analytics.Milliseconds `json:"first_byte_ms,omitempty"`
	End        analytics.Milliseconds `json:"end_ms,omitempty"` // zero: not known

	visit int       // place of the server in the path of the request
	begin time.Time // by the clock of the node; zero: not known
	event *analytics.Event
}

// followRequests makes requests of their events, the oldest request first. Duplicates are removed, and a real end beats that of a crash.
func followRequests(events []analytics.Event) []followedRequest {
	byRequest := map[string]map[string]*analytics.Event{}
	for i := range events {
		e := &events[i]
		if byRequest[e.RequestID] == nil {
			byRequest[e.RequestID] = map[string]*analytics.Event{}
		}
		if known := byRequest[e.RequestID][e.EventID]; known == nil || rankOf(e) > rankOf(known) {
			byRequest[e.RequestID][e.EventID] = e
		}
	}
	var all []followedRequest
	for id, events := range byRequest {
		all = append(all, followRequest(id, events))
	}
	slices.SortFunc(all, func(a, b followedRequest) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.RequestID, b.RequestID))
	})
	return all
}

// rankOf orders the events of one id: a begin, the end of a crash, a real end.
func rankOf(e *analytics.Event) int {
	switch {
	case e.Phase == analytics.PhaseBegin:
		return 0
	case e.Outcome == analytics.OutcomeCrashed:
		return 1
	}
	return 2
}

func followRequest(id string, events map[string]*analytics.Event) followedRequest {
	r := followedRequest{RequestID: id}
	var path []string // that of the entry, or else the longest
	for _, e := range events {
		r.ClientRequestID, r.Account, r.Key = cmp.Or(r.ClientRequestID, e.ClientRequestID), cmp.Or(r.Account, e.Account), cmp.Or(r.Key, e.Key)
		r.Model, r.Pool = cmp.Or(r.Model, e.Model), cmp.Or(r.Pool, e.Pool)
		if len(e.ColoPath) > len(path) || e.Kind == analytics.KindRequest && len(e.ColoPath) > 0 {
			path = e.ColoPath
		}
		r.Hops = append(r.Hops, newHop(e))
	}
	r.orderBy(path)
	r.splitAttempts()
	r.place()
	return r
}

func newHop(e *analytics.Event) hopView {
	h := hopView{
		Node: e.Node, Colo: e.ColoID, Kind: e.Kind, Endpoint: e.Endpoint, Engine: e.Engine, Status: e.Status, Outcome: e.Outcome, Code: e.Code,
		Reason: e.Reason, Attempts: e.Attempts, Queued: e.QueuingTime, FirstByte: e.TimeToFirstToken, End: e.RequestTime, event: e,
	}
	if e.Kind == analytics.KindRequest {
		h.Colo = "" // the colo is that which has served it
	}
	switch {
	case e.RequestTime > 0:
		h.begin = e.Time.Add(-e.RequestTime.Std())
		if e.Kind == analytics.KindInference {
			h.Dispatched = e.RequestTime - e.InferenceTime
		}
	case e.Phase == analytics.PhaseBegin && e.Kind == analytics.KindInference:
		h.begin, h.Dispatched = e.Time.Add(-e.QueuingTime.Std()), e.QueuingTime
	case e.Phase == analytics.PhaseBegin:
		h.begin = e.Time
	}
	return h
}

// orderBy orders the hops by the servers that the request has visited, never by the clocks of two nodes, and adds visits without an event: the
// server refused the request, or its events are elsewhere.
func (r *followedRequest) orderBy(path []string) {
	byNode := map[string][]*hopView{}
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.Kind == analytics.KindRequest {
			h.visit = -1
			continue
		}
		byNode[h.Node] = append(byNode[h.Node], h)
	}
	served := map[int]bool{}
	for name, hops := range byNode {
		setVisits(hops, visitsOf(name, path), len(path))
		for _, h := range hops {
			served[h.visit] = true
		}
	}
	for i, server := range path {
		if colo, name, _ := strings.Cut(server, "/"); !served[i] {
			r.Hops = append(r.Hops, hopView{Node: name, Colo: colo, visit: i})
		}
	}
	slices.SortFunc(r.Hops, compareHops)
}

// visitsOf returns the places of a server in a path.
func visitsOf(name string, path []string) (visits []int) {
	for i, server := range path {
		if _, of, _ := strings.Cut(server, "/"); of == name {
			visits = append(visits, i)
		}
	}
	return visits
}

// setVisits says in which visit each hop of one node was. Permits of one visit have the same begin. A request comes back to a server that has
// refused it, so that its last visits are those with an event.
func setVisits(hops []*hopView, visits []int, unknown int) {
	slices.SortFunc(hops, func(a, b *hopView) int { return a.begin.Compare(b.begin) })
	group := []int{0}
	for i := 1; i < len(hops); i++ {
		next := group[i-1]
		if hops[i].begin.Sub(hops[i-1].begin) > clockTolerance {
			next++
		}
		group = append(group, next)
	}
	for i, h := range hops {
		switch at := len(visits) - 1 - (group[len(group)-1] - group[i]); {
		case len(visits) == 0:
			h.visit = unknown + len(h.event.ColoPath)
		default:
			h.visit = visits[max(at, 0)]
		}
	}
}

// compareHops orders hops by visit. In one visit, a server has granted permits before it has sent the request on.
func compareHops(a, b hopView) int {
	sentOn := func(h *hopView) int {
		if h.Kind == analytics.KindForward {
			return 1
		}
		return 0
	}
	c := cmp.Or(cmp.Compare(a.visit, b.visit), strings.Compare(a.Node, b.Node), cmp.Compare(sentOn(&a), sentOn(&b)), cmp.Compare(a.Attempts, b.Attempts))
	if c != 0 || a.event == nil || b.event == nil {
		return c
	}
	return cmp.Or(a.event.Time.Compare(b.event.Time), strings.Compare(a.event.EventID, b.event.EventID))
}

// splitAttempts has each further permit of a server begin at the end of the one before: both count their times from the request's arrival.
func (r *followedRequest) splitAttempts() {
	for i := len(r.Hops) - 1; i > 0; i-- {
		h, before := &r.Hops[i], &r.Hops[i-1]
		passed := before.End
		if h.Node != before.Node || h.Kind != analytics.KindInference || before.Kind != analytics.KindInference || passed == 0 || passed > h.Dispatched {
			continue
		}
		h.begin = h.begin.Add(passed.Std())
		h.Dispatched -= passed
		h.FirstByte, h.End = max(h.FirstByte-passed, 0), max(h.End-passed, 0)
		h.Queued = min(max(h.Queued-before.Queued, 0), h.Dispatched)
	}
}

// clockTolerance is how far clocks may differ before hops are placed without them.
const clockTolerance = 2 * time.Millisecond

// place sets the offsets of the hops: by the clocks of the nodes if they agree with the order of the hops, and otherwise by that order alone.
func (r *followedRequest) place() {
	first := slices.IndexFunc(r.Hops, func(h hopView) bool { return !h.begin.IsZero() })
	if first < 0 {
		r.Time = r.Hops[0].timeOf()
		return
	}
	r.Time = r.Hops[first].begin
	latest, all := time.Duration(0), r.Hops[first].End.Std()
	for i := range r.Hops {
		h := &r.Hops[i]
		if h.begin.IsZero() {
			continue
		}
		offset := h.begin.Sub(r.Time)
		if offset < latest-clockTolerance || all > 0 && offset+h.End.Std() > all+clockTolerance {
			r.ClocksDiffer = true
		}
		h.Offset = analytics.Milliseconds(max(offset, 0))
		latest = max(latest, offset)
	}
	if r.ClocksDiffer {
		r.placeInOrder(first)
	}
}

// placeInOrder has each hop begin when the permit before has ended, and the last one end with the request.
func (r *followedRequest) placeInOrder(first int) {
	at, all := analytics.Milliseconds(0), r.Hops[first].End
	last := len(r.Hops) - 1
	for i := first + 1; i < len(r.Hops); i++ {
		h := &r.Hops[i]
		h.Offset = at
		if i == last {
			h.Offset = max(at, all-h.End)
		}
		if all > 0 && h.Offset+h.End > all {
			h.Offset = max(all-h.End, 0)
		}
		if h.Kind == analytics.KindInference {
			at = h.Offset + h.End
		}
	}
}

func (h *hopView) timeOf() time.Time {
	if h.event == nil {
		return time.Time{}
	}
	return h.event.Time
}
