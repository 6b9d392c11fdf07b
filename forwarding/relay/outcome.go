package relay

import (
	"context"
	"errors"
	"io"

	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// OutcomeKind is how a response ended, by the names of events.
type OutcomeKind string

// The kinds of outcome.
const (
	OutcomeCompleted   OutcomeKind = "completed"
	OutcomeEngineError OutcomeKind = "engine_error" // truncated, without the API's last event, or with its error event
	OutcomeTimeout     OutcomeKind = "timeout"      // silent or running for too long
	OutcomeClientGone  OutcomeKind = "client_gone"  // the client left, or does not read
	OutcomeDrained     OutcomeKind = "drained"      // cancelled by this node
	OutcomeCrashed     OutcomeKind = "crashed"      // by a panic of this node
)

// Outcome is how a response ended.
type Outcome struct {
	Kind   OutcomeKind
	Reason string // machine-readable; may be empty
	Err    error
}

// classify returns the outcome after Next has returned err. finish truncates the response unless Outcome.Err is nil.
func (r *Relay) classify(err error) Outcome {
	stream := r.Response.Stream()
	var failed *transport.ExchangeError
	var panicked server.PanicError
	switch {
	case errors.As(err, &panicked):
		return Outcome{Kind: OutcomeCrashed, Reason: reasons.Panic, Err: err}
	case stream != nil && stream.Over():
		return Outcome{Kind: OutcomeCompleted} // even if its framing was truncated, or its client has left after the last event
	case errors.Is(err, io.EOF) && stream != nil && stream.Failed():
		return Outcome{Kind: OutcomeEngineError, Reason: reasons.ErrorEvent} // a stream that is truncated after the event stays so
	case stream != nil && stream.Ended() && !stream.Failed() && errors.Is(r.cause(), server.ErrClientGone):
		return Outcome{Kind: OutcomeCompleted} // its client had the last image, as far as is known
	case r.cause() != nil:
		return r.cancelledOutcome()
	case errors.Is(err, io.EOF) && stream != nil && stream.Ended():
		return Outcome{Kind: OutcomeCompleted}
	case errors.Is(err, io.EOF) && stream != nil && stream.NeedsEnd():
		return Outcome{Kind: OutcomeEngineError, Reason: reasons.Truncated, Err: errNoProperEnd}
	case errors.Is(err, io.EOF):
		return r.framedOutcome()
	case errors.As(err, &failed) && failed.Timeout:
		return Outcome{Kind: OutcomeTimeout, Reason: r.Response.TimeoutReason(), Err: err}
	}
	return Outcome{Kind: OutcomeEngineError, Reason: reasons.Truncated, Err: err}
}

// framedOutcome returns the outcome of a response that has ended by its framing, and has no last event. JSON must close, too; and the
// end of the connection alone is no framing.
func (r *Relay) framedOutcome() Outcome {
	json := r.Response.JSONEnd()
	switch {
	case r.EndUnknown:
		return Outcome{Kind: OutcomeCompleted, Reason: reasons.CloseDelimited}
	case json == openai.JSONOpen:
		return Outcome{Kind: OutcomeEngineError, Reason: reasons.Truncated, Err: errOpenJSON}
	case json == openai.JSONUnclear && r.Response.CloseDelimited():
		return Outcome{Kind: OutcomeEngineError, Reason: reasons.Truncated, Err: errUnknownEnd}
	}
	return Outcome{Kind: OutcomeCompleted}
}

var (
	errNoProperEnd = errors.New("stream ended without its API's last event")
	errOpenJSON    = errors.New("response ended inside its JSON")
	errUnknownEnd  = errors.New("response has neither a length nor chunks")
)

// cause returns why the response was cancelled: by the end of this relay's context, or of the context that the exchange with the
// server runs under, where that is another one.
func (r *Relay) cause() error {
	if cause := context.Cause(r.Context); cause != nil {
		return cause
	}
	return r.Response.Cancelled()
}

func (r *Relay) cancelledOutcome() Outcome {
	cause := r.cause()
	if errors.Is(cause, server.ErrClientGone) {
		return Outcome{Kind: OutcomeClientGone, Err: cause}
	}
	return Outcome{Kind: OutcomeDrained, Reason: reasons.Draining, Err: cause}
}

// writeFailed returns the outcome after a failed write.
func (r *Relay) writeFailed(err error) Outcome {
	if r.Context.Err() != nil {
		return r.cancelledOutcome()
	}
	return Outcome{Kind: OutcomeClientGone, Err: err}
}

func errorEvent(end Outcome) *openai.Error {
	switch end.Kind {
	case OutcomeCrashed:
		return openai.Internal()
	case OutcomeTimeout:
		return openai.InferenceTimeout(end.Reason)
	case OutcomeDrained:
		return openai.Unavailable(end.Reason, 0)
	}
	return openai.EngineFailed(end.Reason)
}
