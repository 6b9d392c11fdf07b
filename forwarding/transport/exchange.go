package transport

import (
	"context"

	"colonnade/forwarding/netconn"
)

// Phase is how far an exchange had got when it failed.
type Phase uint8

// The phases of an exchange.
const (
	PhaseConnect   Phase = iota // nothing was sent
	PhaseFirstByte              // the request was sent; the first byte has not arrived
	PhaseStream                 // after the first byte
)

// ExchangeError is the failure of an exchange.
type ExchangeError struct {
	Phase   Phase
	Timeout bool // one of the request's limits was reached; otherwise the other side failed
	Err     error
}

func (e *ExchangeError) Error() string {
	what := [...]string{"cannot connect", "no first byte", "response truncated"}[e.Phase]
	if e.Timeout {
		return what + " in time: " + e.Err.Error()
	}
	return what + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ExchangeError) Unwrap() error { return e.Err }

// cause returns the cause of the end of ctx or, failing that, of the request's Abort; nil if neither has ended.
func (r *Request) cause(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.Abort.Cause()
}

// failed returns the cause of the end of the exchange if it was ended, or err as an [ExchangeError].
func (r *Request) failed(ctx context.Context, phase Phase, err error) error {
	if cause := r.cause(ctx); cause != nil {
		return cause
	}
	return exchangeError(ctx, phase, err)
}

// exchangeError returns the cause of ctx if that has ended, or err as an [ExchangeError].
func exchangeError(ctx context.Context, phase Phase, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &ExchangeError{Phase: phase, Timeout: netconn.IsTimeout(err), Err: err}
}
