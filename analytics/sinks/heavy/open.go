// Package heavy opens all sinks, also those whose clients are large. Only `colonnade ship` has it.
package heavy

import (
	"fmt"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/clickhouse"
	"colonnade/analytics/sinks/kafka"
	"colonnade/analytics/sinks/light"
	"colonnade/analytics/sinks/postgres"
	"colonnade/analytics/sinks/s3"
)

// Open opens a sink. It does not wait for the receiver: a sink that is away now is tried again with each batch.
func Open(s *sinks.Spec, e sinks.Environment) (ship.Sink, error) {
	if !s.Scheme.Heavy {
		return light.Open(s, e)
	}
	sink, err := open(s, e)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", s.Name, err)
	}
	return sink, nil
}

func open(s *sinks.Spec, e sinks.Environment) (ship.Sink, error) {
	switch s.Scheme.Name {
	case "clickhouse":
		return clickhouse.Open(s, e)
	case "kafka":
		return kafka.Open(s, e)
	case "postgres":
		return postgres.Open(s, e)
	case "s3":
		return s3.Open(s, e)
	}
	return nil, fmt.Errorf("the scheme %s has no client", s.Scheme.Name)
}
