package node

import (
	"cmp"
	"slices"
	"time"

	"colonnade/analytics/ship"
	"colonnade/internal/wording"
	"colonnade/problems"
	"colonnade/reasons"
)

const (
	// sinkLossWindow is how long events that a sink has missed or rejected are reported as a problem.
	sinkLossWindow = 10 * time.Minute
	// sinkBehind is how old the oldest event may be that a sink has not taken, before that is reported.
	sinkBehind = time.Minute
)

// states returns the state of each sink, in the order of their names.
func (s *shippers) states() []SinkState {
	s.mu.Lock()
	var shown []*runningSink
	for _, r := range s.running {
		shown = append(shown, r)
	}
	s.mu.Unlock()
	slices.SortFunc(shown, func(a, b *runningSink) int { return cmp.Compare(a.spec.Name, b.spec.Name) })
	states := make([]SinkState, 0, len(shown))
	for _, r := range shown {
		state := SinkState{Document: r.document, Problem: r.problem, Stats: ship.Stats{Name: r.spec.Name}}
		if r.shipper != nil {
			state.Stats = r.shipper.Stats()
		}
		states = append(states, state)
	}
	return states
}

// stats returns the counts of each sink that is open.
func (s *shippers) stats() []ship.Stats {
	var all []ship.Stats
	for _, state := range s.states() {
		if state.Problem == "" {
			all = append(all, state.Stats)
		}
	}
	return all
}

// addProblems adds what is wrong with a sink.
func (s *SinkState) addProblems(l *problems.List, subject, name string, now time.Time) {
	subject = cmp.Or(s.Document, subject)
	lag := wording.Count(int(s.LagEvents), "event") + " waiting"
	switch {
	case s.Problem != "":
		l.Errorf(reasons.SinkClosed, subject, "%s: cannot open the sink %s: %s", name, s.Name, s.Problem)
	case s.Failing != "":
		l.Warnf(reasons.SinkFailing, subject, "%s: the sink %s has taken no events for %s, with %s: %s", name, s.Name, wording.InDays(max(now.Sub(s.FailingSince), 0)), lag, s.Failing)
	case s.LagSeconds > sinkBehind.Seconds():
		l.Warnf(reasons.SinkBehind, subject, "%s: the sink %s is %s behind, with %s", name, s.Name, wording.InDays(time.Duration(s.LagSeconds*float64(time.Second))), lag)
	}
	if s.Dropped > 0 && now.Sub(s.DroppedAt) < sinkLossWindow {
		l.Errorf(reasons.SinkLosing, subject, "%s: the sink %s has missed %s, which were dropped at the bound of the disk before it took them", name, s.Name, wording.Count(int(s.Dropped), "event"))
	}
	if s.Rejected > 0 && now.Sub(s.RejectedAt) < sinkLossWindow {
		l.Errorf(reasons.SinkRejecting, subject, "%s: the sink %s has rejected %s for good, the last one: %s", name, s.Name, wording.Count(int(s.Rejected), "event"), s.LastRejected)
	}
	if s.Unreadable != "" {
		l.Errorf(reasons.SinkUnreadable, subject, "%s: some events are not sent to the sink %s: %s", name, s.Name, s.Unreadable)
	}
	if s.Unsaved != "" {
		l.Warnf(reasons.SinkUnsaved, subject, "%s: cannot save the position of the sink %s: %s", name, s.Name, s.Unsaved)
	}
}
