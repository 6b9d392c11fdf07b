package colo

import (
	"context"
	"errors"
	"io"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// maxModelList bounds the list of models of an engine, in bytes: an adapter takes half a KiB of it.
const maxModelList = 4 << 20

// readModels reads which models and adapters an engine lists, after its health check succeeded. An engine without a list, or with one
// that comes late, says nothing.
func (s *Server) readModels(ctx context.Context, e *fleet.Endpoint) {
	if names, ok := s.askModels(ctx, e); ok {
		s.pools.NoteModels(e.URL, names)
	}
}

func (s *Server) askModels(ctx context.Context, e *fleet.Endpoint) (names []string, ok bool) {
	target, err := transport.ParseTarget(e.URL)
	if err != nil {
		return nil, false
	}
	fields, err := s.credentials.fields(e)
	if err != nil {
		return nil, false
	}
	deadline, _ := ctx.Deadline()
	answer, err := s.transport.Do(ctx, &transport.Request{
		Target: target, Method: "GET", Path: "/v1/models", Fields: fields, ConnectTimeout: time.Until(deadline), Deadline: deadline,
	}, transport.ReadOptions{})
	if err != nil {
		return nil, false
	}
	defer answer.Close()
	if answer.Status() != 200 || answer.NotAPI() {
		return nil, false
	}
	var body []byte
	for {
		piece, err := answer.Next()
		body = append(body, piece...)
		switch {
		case errors.Is(err, io.EOF):
			return openai.ListedModels(body)
		case err != nil || len(body) > maxModelList:
			return nil, false
		}
	}
}
