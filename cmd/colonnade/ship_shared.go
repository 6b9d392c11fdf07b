package main

import (
	"context"
	"sync"

	"colonnade/analytics/ship"
)

// sharedSink is a sink of several nodes, and takes their batches one after the other. A file needs one writer: it knows the size of the file, removes
// the rest of a failed write, and renames the file when it is full.
type sharedSink struct {
	mu    sync.Mutex // guards the fields below
	sink  ship.Sink
	users int // that have not closed it
}

// share returns the sink for one more node.
func (s *sharedSink) share() ship.Sink {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users++
	return s
}

// Check implements [ship.Sink].
func (s *sharedSink) Check(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink.Check(ctx)
}

// Send implements [ship.Sink].
func (s *sharedSink) Send(ctx context.Context, b *ship.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink.Send(ctx, b)
}

// Sync implements [ship.Sink].
func (s *sharedSink) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink.Sync()
}

// Close implements [ship.Sink]. The last of the nodes closes the sink.
func (s *sharedSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	return s.sink.Close()
}
