package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// errTruncated makes the server close the client's connection without the last chunk.
var errTruncated = errors.New("answer was cut short")

// OutcomeKind says how an answer ended, as events name it.
type OutcomeKind string

// The ends of an answer.
const (
	OutcomeCompleted   OutcomeKind = "completed"
	OutcomeEngineError OutcomeKind = "engine_error" // cut short by the other side, or without the API's proper end, or with its error event
	OutcomeTimeout     OutcomeKind = "timeout"      // silent for too long, or out of time altogether
	OutcomeClientGone  OutcomeKind = "client_gone"  // the client left, or takes nothing any more
	OutcomeDrained     OutcomeKind = "drained"      // by us: for any other cause than a client that has gone
	OutcomeCrashed     OutcomeKind = "crashed"      // by a panic of ours
)

// Outcome is how a relay ended, and why.
type Outcome struct {
	Kind   OutcomeKind
	Reason string // machine-readable; empty where the kind says it all
	Err    error
}

// Relay writes the rest of an answer to the client: the body stream of a fasthttp response, which is written after the
// handler has returned. Whatever happens, Known is called exactly once, before the client can know how the answer ends,
// and Ended exactly once after it: before the last byte is written, and after the exchange has been closed unless its
// answer was read to its end.
type Relay struct {
	Context   context.Context
	Response  *transport.Response
	Client    net.Conn
	Stall     time.Duration // longest time for one write; 0 = 30 s
	RequestID string        // for error events
	OnChunk   func()        // after each piece; nil = nobody wants to know
	OnOutcome func(Outcome) // how the answer ends
	OnClose   func()

	outcomeSet bool
	closed     bool
	blocked    time.Duration
	detach     func() // ends what watches the context
}

// SupportsBodyWriteTo makes fasthttp call WriteTo: every piece becomes one flushed chunk, and an error cuts the answer.
func (r *Relay) SupportsBodyWriteTo() bool { return true }

// Read is there since a body stream must be a reader.
func (r *Relay) Read([]byte) (int, error) {
	return 0, errors.New("a relay is written to its client, not read")
}

// WriteTo delivers the answer. A panic costs this answer only.
func (r *Relay) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if with := recover(); with != nil {
			defer r.Response.Close()
			n, err = r.Response.Size(), server.NewPanicError(with)
			_ = r.finish(w, err)
		}
	}()
	return r.deliver(w)
}

func (r *Relay) deliver(w io.Writer) (int64, error) {
	r.watchContext()
	for {
		piece, err := r.Response.Next()
		if err != nil {
			return r.Response.Size(), r.finish(w, err)
		}
		if len(piece) == 0 {
			continue
		}
		last := r.Response.Done()
		switch stream := r.Response.Stream(); {
		case last:
			r.closeWith(r.classify(io.EOF))
		case stream != nil && stream.Over() && !r.clientGone():
			// The API's end is in this piece: whoever reads it takes the answer for complete, before its framing ends.
			r.setOutcome(Outcome{Kind: OutcomeCompleted})
		}
		if err := r.write(w, piece); err != nil {
			r.closeWith(r.writeFailed(err))
			return r.Response.Size(), err
		}
		if r.OnChunk != nil {
			r.OnChunk()
		}
		if last {
			_, _ = r.Response.Next() // lets the connection go: only now, since the piece stood in its buffer
			return r.Response.Size(), nil
		}
	}
}

// watchContext lets the context's end wake a write that is under way, until settle. What is written after that has a deadline
// that nobody else moves.
func (r *Relay) watchContext() {
	woken := make(chan struct{})
	stop := context.AfterFunc(r.Context, func() {
		defer close(woken)
		_ = r.Client.SetWriteDeadline(r.finalDeadline())
	})
	r.detach = func() {
		r.detach = nil // also if what comes after should panic: a second time there is nobody to wait for
		if !stop() {
			<-woken
		}
	}
}

func (r *Relay) write(w io.Writer, p []byte) error {
	stall := r.Stall
	if stall == 0 {
		stall = netconn.WriteStall
	}
	if err := r.Client.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return err
	}
	// After the deadline has moved: it is moved back after the context's end, so one of the two is seen. Whoever is told
	// of the end may cancel the context, and what is then left to say must still be said.
	if !r.closed && r.Context.Err() != nil {
		if r.clientGone() {
			return context.Cause(r.Context)
		}
		_ = r.Client.SetWriteDeadline(r.finalDeadline())
	}
	began := time.Now()
	_, err := w.Write(p)
	r.blocked += time.Since(began)
	return err
}

// BlockedOnClient is for how long the client has held the answer up so far: what is written goes to buffers while they have room, so a
// write lasts only for a client that does not read. Only Passed, Known and Ended may ask.
func (r *Relay) BlockedOnClient() time.Duration { return r.blocked }

// clientGone says that the context has ended since the client has gone, and not because we end the answer.
func (r *Relay) clientGone() bool { return errors.Is(context.Cause(r.Context), server.ErrClientGone) }

// finalDeadline is by when what is written must be, once the context has ended: what has come of an answer that we end is still
// delivered, so that the client hears of the end behind it.
func (r *Relay) finalDeadline() time.Time {
	if r.clientGone() {
		return netconn.PastDeadline()
	}
	return time.Now().Add(server.FinalWriteTimeout)
}

// finish tells the client how the answer ended, and returns an error if it must not look complete.
func (r *Relay) finish(w io.Writer, err error) error {
	end := r.classify(err)
	r.closeWith(end)
	if end.Err == nil {
		return nil
	}
	if stream := r.Response.Stream(); stream != nil && !stream.Failed() && end.Kind != OutcomeClientGone {
		if end.Kind == OutcomeDrained {
			r.Stall = server.FinalWriteTimeout
		}
		_ = r.write(w, stream.AppendError(nil, errorEvent(end), r.RequestID))
		server.LingerOnClose(r.Client) // a reset would throw it away
	}
	server.TruncateOnClose(r.Client)
	return errTruncated
}

// classify tells a proper end from a false one. End.Err is nil only where the answer may look complete.
func (r *Relay) classify(err error) Outcome {
	stream := r.Response.Stream()
	var failed *transport.ExchangeError
	var panicked server.PanicError
	switch {
	case errors.As(err, &panicked):
		return Outcome{Kind: OutcomeCrashed, Reason: reasons.Panic, Err: err}
	case stream != nil && stream.Ended() && !stream.Failed():
		return Outcome{Kind: OutcomeCompleted} // whatever became of the framing, or of a client that has heard all it wanted
	case errors.Is(err, io.EOF) && stream != nil && stream.Failed():
		return Outcome{Kind: OutcomeEngineError, Reason: reasons.ErrorEvent} // if it was cut behind that, it stays cut
	case r.cause() != nil:
		return r.cancelledOutcome()
	case errors.Is(err, io.EOF) && (stream == nil || !stream.NeedsEnd()):
		return Outcome{Kind: OutcomeCompleted}
	case errors.Is(err, io.EOF):
		return Outcome{Kind: OutcomeEngineError, Reason: reasons.Truncated, Err: errNoProperEnd}
	case errors.As(err, &failed) && failed.Timeout:
		return Outcome{Kind: OutcomeTimeout, Reason: r.Response.TimeoutReason(), Err: err}
	}
	return Outcome{Kind: OutcomeEngineError, Reason: reasons.Truncated, Err: err}
}

var errNoProperEnd = errors.New("stream ended without its API's last event")

// cause returns why the answer was cancelled: by the end of this relay's context, or of the context that the exchange with the
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

// writeFailed is the end after a failed write, unless the request was cancelled for another cause.
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

func (r *Relay) setOutcome(e Outcome) {
	if !r.outcomeSet {
		r.outcomeSet = true
		r.OnOutcome(e)
	}
}

func (r *Relay) closeWith(e Outcome) {
	if r.closed {
		return
	}
	r.closed = true
	defer r.OnClose() // also if what comes before should panic
	if r.detach != nil {
		r.detach()
	}
	if r.Response.Done() {
		r.Response.DetachContext()
	} else {
		r.Response.Close()
	}
	r.setOutcome(e)
}

// Close ends a relay that was not, or not wholly, written.
func (r *Relay) Close() error {
	r.closeWith(r.writeFailed(io.ErrClosedPipe))
	r.Response.Close()
	return nil
}
