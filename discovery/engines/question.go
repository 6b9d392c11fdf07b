package engines

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Question is what is asked of one engine, by a process that follows it.
type Question struct {
	URL    string
	Key    string  // API key that the engine wants; "" = none
	Before *Engine // its last answer; nil = none
}

// Ask asks the engine what it is, as the function [Ask] does. Pages that only say which API a model answers are not read again for models
// that the engine had before.
func (q Question) Ask(ctx context.Context) (*Engine, error) {
	in, err := q.inquiry()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	defer in.client.CloseIdleConnections()
	return in.ask(ctx)
}

// Healthy requests the engine's health path, and returns an error unless it answers within the timeout as colo servers want it. The error
// is syscall.ECONNREFUSED for an engine that does not listen.
func (q Question) Healthy(ctx context.Context, path string, timeout time.Duration) error {
	in, err := q.inquiry()
	if err != nil {
		return err
	}
	defer in.client.CloseIdleConnections()
	in.pageTime = timeout
	p, err := in.do(ctx, http.MethodGet, path, "")
	switch {
	case err != nil:
		return err
	case p.status > 299:
		return in.notUp(fmt.Errorf("GET %s answers %d %s", path, p.status, http.StatusText(p.status)))
	}
	return nil
}

func (q Question) inquiry() (inquiry, error) {
	url, err := normalURL(q.URL)
	if err != nil {
		return inquiry{}, err
	}
	in := newInquiry(url)
	in.before, in.key = q.Before, q.Key
	in.keyAdvice = "set credential=env:COLONNADE_CREDENTIAL_NAME for the endpoint, with a variable that this process has as well, or start it without a key"
	return in, nil
}
