package colo

import (
	"context"
	"time"

	"colonnade/fleet"
	"colonnade/openai"
)

// maxModelList bounds the list of models of an engine, in bytes: an adapter takes half a KiB of it.
const maxModelList = 4 << 20

// askModels asks an engine for its list of models. ok is false for an engine without a list, or with one that comes late.
func (s *Server) askModels(ctx context.Context, e *fleet.Endpoint) (names []string, ok bool) {
	answer, err := s.exchange(ctx, e, engineCall{method: "GET", path: "/v1/models", atMost: maxModelList})
	if err != nil || answer.Status != 200 || answer.NotAPI {
		return nil, false
	}
	return openai.ListedModels(answer.Body)
}

const (
	maxMetrics     = 4 << 20                // of an engine, in bytes
	metricsTimeout = 500 * time.Millisecond // for reading them
)

// readAdapters reads which adapters an engine has in use, from its metrics. An engine without them, or with some that come late, says nothing.
func (s *Server) readAdapters(ctx context.Context, e *fleet.Endpoint) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	answer, err := s.exchange(ctx, e, engineCall{method: "GET", path: "/metrics", atMost: maxMetrics})
	if err == nil && answer.Status == 200 && !answer.NotAPI {
		s.pools.NoteAdapters(e.URL, openai.AdaptersInUse(answer.Body))
	}
}
