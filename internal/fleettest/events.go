package fleettest

import (
	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/testkit"
)

// FinalEvents returns the final events of one kind of the requests with a client's x-request-id.
func (f *Fleet) FinalEvents(kind analytics.Kind, clientID string) (found []analytics.Event) {
	f.T.Helper()
	for e, err := range journal.ReadDir(f.Entry.DataDir) {
		if err != nil {
			f.T.Fatal(err)
		}
		if e.Phase == analytics.PhaseEnd && e.Kind == kind && e.ClientRequestID == clientID {
			found = append(found, e)
		}
	}
	return found
}

// FinalEvent waits for the final event of a request, of which there must be one.
func (f *Fleet) FinalEvent(kind analytics.Kind, clientID string) analytics.Event {
	f.T.Helper()
	testkit.WaitFor(f.T, "the final event of "+clientID, func() bool { return len(f.FinalEvents(kind, clientID)) > 0 })
	found := f.FinalEvents(kind, clientID)
	if len(found) != 1 {
		f.T.Errorf("%s: %d final events of kind %s, want 1", clientID, len(found), kind)
	}
	return found[0]
}

// LastEvents waits for the final events of a request, by the id that the entry gave it, and returns those of the entry
// and of the last attempt in a colo.
func (f *Fleet) LastEvents(requestID string) (request, inference analytics.Event) {
	f.T.Helper()
	testkit.WaitFor(f.T, "the events of "+requestID, func() bool {
		request, inference = analytics.Event{}, analytics.Event{}
		for e, err := range journal.ReadDir(f.Entry.DataDir) {
			switch {
			case err != nil || e.RequestID != requestID || e.Phase != analytics.PhaseEnd:
			case e.Kind == analytics.KindRequest:
				request = e
			case e.Attempts >= inference.Attempts:
				inference = e
			}
		}
		return request.EventID != "" && inference.EventID != ""
	})
	return request, inference
}
