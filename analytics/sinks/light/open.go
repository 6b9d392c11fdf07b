// Package light opens the sinks that nodes have themselves, whose clients are small.
package light

import (
	"errors"
	"fmt"
	"time"

	"colonnade/analytics"
	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/nats"
	"colonnade/analytics/sinks/otlp"
)

// Open opens a sink. It does not wait for the receiver: a sink that is away now is tried again with each batch.
func Open(s *sinks.Spec, e sinks.Environment) (ship.Sink, error) {
	sink, err := open(s, e)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", s.Name, err)
	}
	return sink, nil
}

func open(s *sinks.Spec, e sinks.Environment) (ship.Sink, error) {
	switch s.Scheme.Name {
	case "file":
		return newFile(s, e)
	case "unix":
		return newSocket(s), nil
	case "http", "https":
		return newReceiver(s, e)
	case "otlp", "otlps":
		return otlp.Open(s, e)
	case "nats":
		return nats.Open(s, e)
	}
	return nil, errors.New("nodes cannot open sinks of the scheme " + s.Scheme.Name + ", whose client is large: run `colonnade ship -data-dir DIR -sink URL` beside the node instead")
}

// Config returns the settings of the shipper of a sink.
func Config(s *sinks.Spec, e sinks.Environment, flush time.Duration) ship.Config {
	c := ship.Config{
		Dir: e.DataDir, Node: e.Node, Name: s.Name, Scheme: s.Scheme.Name, Filter: ship.Filter{Accounts: s.Accounts}, Logger: e.Logger,
		BatchEvents: s.BatchEvents, BatchBytes: s.BatchBytes, Every: s.Every, Flush: flush,
	}
	for _, kind := range s.Kinds {
		c.Filter.Kinds = append(c.Filter.Kinds, analytics.Kind(kind))
	}
	return c
}
