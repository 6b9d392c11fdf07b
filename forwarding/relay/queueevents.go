package relay

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

const (
	// progressInterval is the shortest time between two comments with a position.
	progressInterval = time.Second
	// heartbeatInterval is the longest time between two comments before the first byte.
	heartbeatInterval = 5 * time.Second
)

// QueueEventStream is an event stream that begins before the engine's response, for a client that has asked for queue events. Until
// that response begins, the client reads comments about its position in the queue, which parsers of events ignore. Like a [Relay] it
// is written after the handler has returned; so Resolve, which obtains the response, runs then.
//
// Comments are not the first byte: until the engine's first byte, the request may be retried as any other.
type QueueEventStream struct {
	// Relay writes the response once Resolve has returned it. Its OnOutcome is called for the outcome of a response, and if the stream is
	// closed before it was written.
	*Relay
	Route  openai.Route
	Cancel context.CancelCauseFunc // of the relay's context
	// Resolve obtains the response, with ReportProgress and Tick in its requests. Without a response it returns the client's error, or
	// nil if the client has gone, after it has logged the end of the request.
	Resolve func() (*transport.Response, *openai.Error)
	// OnPanic logs a panic, and returns the client's error.
	OnPanic func(panicked, stack string) *openai.Error

	client  io.Writer
	ended   bool         // end was called
	pending hop.Progress // not sent yet; zero = none
	sent    hop.Progress // the last one sent
	sentAt  time.Time
	wroteAt time.Time
}

// WriteQueueEvents makes q the response to the client. Its head is written at once.
func WriteQueueEvents(rc *fasthttp.RequestCtx, q *QueueEventStream) {
	rc.SetStatusCode(fasthttp.StatusOK)
	rc.Response.Header.SetContentType("text/event-stream")
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
	rc.Response.ImmediateHeaderFlush = true
	rc.Response.SetBodyStream(q, -1)
}

// WriteTo writes comments, and then the response or an error event. It recovers from panics.
func (q *QueueEventStream) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			defer q.end()
			err = q.writeRefusal(w, q.OnPanic(server.DescribePanic(recovered), server.Stack()))
		}
	}()
	q.client, q.wroteAt = w, time.Now()
	q.watchContext()
	response, refused := q.Resolve()
	if response == nil {
		return 0, q.writeRefusal(w, refused)
	}
	if q.detach != nil {
		q.detach()
	}
	q.Response = response
	return q.Relay.WriteTo(w)
}

// writeRefusal ends a stream without a response. The client gets the error, and a truncated stream.
func (q *QueueEventStream) writeRefusal(w io.Writer, e *openai.Error) error {
	drained := q.Context.Err() != nil
	q.end()
	if e != nil {
		if drained {
			q.Stall = server.FinalWriteTimeout
		}
		_ = q.send(w, openai.NewStream(openai.StreamConfig{API: q.Route.API, Dialect: q.Route.Dialect}).AppendError(nil, e, q.RequestID))
		server.LingerOnClose(q.Client) // a reset would discard the event
	}
	server.TruncateOnClose(q.Client)
	return errTruncated
}

// end calls OnClose, unless the relay has.
func (q *QueueEventStream) end() {
	if q.ended {
		return
	}
	q.ended = true
	if q.detach != nil {
		q.detach()
	}
	if q.closed {
		return // by the relay
	}
	q.closed = true // so that later writes do not depend on the context
	q.OnClose()
}

// Close ends a stream that was not written to its end.
func (q *QueueEventStream) Close() error {
	if q.Response != nil {
		return q.Relay.Close()
	}
	if q.OnWritten != nil {
		defer q.OnWritten()
	}
	if !q.ended {
		q.setOutcome(Outcome{Kind: OutcomeClientGone, Err: io.ErrClosedPipe})
		q.end()
	}
	return nil
}

// ReportProgress takes the progress that a colo has reported.
func (q *QueueEventStream) ReportProgress(at hop.Progress) {
	q.pending = at
	q.Tick()
}

// ResetProgress drops a progress that was not sent yet, when the request leaves the colo that has reported it.
func (q *QueueEventStream) ResetProgress() { q.pending = hop.Progress{} }

// Tick writes a comment if one is due, and returns the longest time until the next call.
func (q *QueueEventStream) Tick() time.Duration {
	now := time.Now()
	if q.pending == q.sent {
		q.pending = hop.Progress{}
	}
	waiting := q.pending != hop.Progress{}
	switch {
	case waiting && now.Sub(q.sentAt) >= progressInterval:
		q.sent, q.sentAt, q.pending, waiting = q.pending, now, hop.Progress{}, false
		q.writeComment(append(q.sent.Append([]byte(": "+openai.QueueComment+" "), ' '), "\n\n"...), now)
	case now.Sub(q.wroteAt) >= heartbeatInterval:
		q.writeComment([]byte(": "+openai.HeartbeatComment+"\n\n"), now)
	}
	next := q.wroteAt.Add(heartbeatInterval)
	if due := q.sentAt.Add(progressInterval); waiting && due.Before(next) {
		next = due
	}
	return max(next.Sub(now), time.Millisecond)
}

// writeComment writes to the client. As with a response, the request ends if the client does not read.
func (q *QueueEventStream) writeComment(text []byte, now time.Time) {
	q.wroteAt = now
	if err := q.send(q.client, text); err != nil && q.Context.Err() == nil {
		q.Cancel(errors.Join(server.ErrClientGone, err))
	}
}
