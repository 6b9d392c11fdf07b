package document

import (
	"colonnade/analytics/sinks"
	"colonnade/fleet"
)

// checkSink refuses a sink that no node could open.
func checkSink(s *fleet.Sink) *fieldError {
	if _, err := sinks.ParseDocument(s.Name, s.URL, s.Settings()); err != nil {
		return &fieldError{Reason: err.Error()}
	}
	return nil
}
