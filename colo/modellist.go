package colo

import (
	"context"

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
