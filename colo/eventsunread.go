package colo

import (
	"slices"

	"colonnade/permits"
)

// EventsUnread is a pool with engines that are up, and whose events of the KV cache cannot be read though their documents name them.
type EventsUnread struct {
	Pool    string
	Engines []string // each with the error, sorted
}

// EventsUnread returns the pools with engines whose events cannot be read.
func (s *Server) EventsUnread() (all []EventsUnread) {
	for _, p := range s.Pools() {
		if engines := eventsUnread(p.Endpoints); len(engines) > 0 {
			all = append(all, EventsUnread{Pool: p.Pool, Engines: engines})
		}
	}
	return all
}

func eventsUnread(endpoints []permits.EndpointStats) (engines []string) {
	for _, e := range endpoints {
		if e.State == "up" && e.Cache != nil && e.Cache.Events != nil && e.Cache.Events.Error != "" {
			engines = append(engines, e.ID+": "+e.Cache.Events.Error)
		}
	}
	slices.Sort(engines)
	return engines
}
