package transport

import (
	"context"
	"errors"
	"net"
)

// Phase says how far an exchange had come when it failed.
type Phase uint8

// The phases of an exchange.
const (
	PhaseConnect   Phase = iota // nothing was sent
	PhaseFirstByte              // sent, and nothing came back that commits us
	PhaseStream                 // after the first byte
)

// ExchangeError is why an exchange ended without its answer's proper end.
type ExchangeError struct {
	Phase   Phase
	Timeout bool // ours ran out; else the other side failed
	Err     error
}

func (e *ExchangeError) Error() string {
	what := [...]string{"cannot connect", "no first byte", "answer cut short"}[e.Phase]
	if e.Timeout {
		return what + " in time: " + e.Err.Error()
	}
	return what + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExchangeError) Unwrap() error { return e.Err }

// exchangeError tells a cancellation, which gives the context's cause, from a failure.
func exchangeError(ctx context.Context, phase Phase, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var timeout net.Error
	return &ExchangeError{Phase: phase, Timeout: errors.As(err, &timeout) && timeout.Timeout(), Err: err}
}
