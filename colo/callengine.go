package colo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/transport"
)

// errLongAnswer is returned for an answer of an engine that is longer than expected.
var errLongAnswer = errors.New("the answer is too long")

// maxConnect is the longest time for a connection to an engine that no client waits for.
const maxConnect = 10 * time.Second

// EngineAnswer is what an engine has answered to a request that no client has made.
type EngineAnswer struct {
	Status int
	Body   []byte
	NotAPI bool // see [transport.Response.NotAPI]

	credential string // that was sent; empty = none
}

// Redact returns a text of the answer without the credential that was sent, such as one that has been decoded: engines repeat a key that they
// refuse.
func (a *EngineAnswer) Redact(text string) string {
	if a.credential == "" {
		return text
	}
	return strings.ReplaceAll(text, a.credential, "…")
}

// CallEngine posts a JSON body to a path of an endpoint's engine, with the credential of the endpoint, and returns its answer of at most
// 64 KiB, without that credential as it is; what is decoded of it needs [EngineAnswer.Redact]. ctx must have a deadline.
func (s *Server) CallEngine(ctx context.Context, e *fleet.Endpoint, path string, body []byte) (EngineAnswer, error) {
	answer, err := s.exchange(ctx, e, engineCall{method: "POST", path: path, body: body, atMost: 64 << 10})
	if answer.credential != "" {
		answer.Body = bytes.ReplaceAll(answer.Body, []byte(answer.credential), []byte("…"))
	}
	return answer, err
}

// ReadModels reads at once which models and adapters the engine of an endpoint lists, and goes by them from then on. It returns nil for an
// engine without a list, or with one that does not come before the deadline that ctx must have.
func (s *Server) ReadModels(ctx context.Context, e *fleet.Endpoint) []string {
	names, ok := s.askModels(ctx, e)
	if ok {
		s.pools.NoteModels(e.URL, names)
	}
	return names
}

type engineCall struct {
	method, path string
	body         []byte // JSON; nil = none
	atMost       int    // bytes of the answer
}

// exchange makes one request to an engine until the deadline of ctx.
func (s *Server) exchange(ctx context.Context, e *fleet.Endpoint, c engineCall) (EngineAnswer, error) {
	var body []byte
	answer, err := s.exchangeTo(ctx, e, c, func(piece []byte) { body = append(body, piece...) })
	answer.Body = body
	return answer, err
}

// exchangeTo is exchange, and hands the body over in pieces, which are valid for as long as the call.
func (s *Server) exchangeTo(ctx context.Context, e *fleet.Endpoint, c engineCall, take func([]byte)) (EngineAnswer, error) {
	target, err := transport.ParseTarget(e.URL)
	if err != nil {
		return EngineAnswer{}, err
	}
	fields, err := s.credentials.appendFields(nil, e)
	if err != nil {
		return EngineAnswer{}, err
	}
	credential := ""
	if len(fields) > 0 {
		credential = strings.TrimPrefix(fields[0].Value, bearer)
	}
	if c.body != nil {
		fields = append(fields, transport.Field{Name: "Content-Type", Value: "application/json"})
	}
	deadline, _ := ctx.Deadline()
	answer, err := s.transport.Do(ctx, &transport.Request{
		Target: target, Method: c.method, Path: c.path, Fields: fields, Body: c.body, ConnectTimeout: min(time.Until(deadline), maxConnect), Deadline: deadline,
	}, transport.ReadOptions{})
	if err != nil {
		return EngineAnswer{}, err
	}
	defer answer.Close()
	got, size := EngineAnswer{Status: answer.Status(), NotAPI: answer.NotAPI(), credential: credential}, 0
	for {
		piece, err := answer.Next()
		if size += len(piece); size > c.atMost {
			return got, errLongAnswer
		}
		take(piece)
		switch {
		case errors.Is(err, io.EOF):
			return got, nil
		case err != nil:
			return got, fmt.Errorf("cannot read the answer: %w", err)
		}
	}
}
