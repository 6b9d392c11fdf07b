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
	// progressInterval is how often a client is told how its request waits, at most.
	progressInterval = time.Second
	// heartbeatInterval is the longest silence before the first byte.
	heartbeatInterval = 5 * time.Second
)

// QueueEventStream is a stream of events that begins before its answer does, for a client that wants to know how its request
// waits: it reads comments meanwhile, which no reader of events takes for one. Like a [Relay] it is written after the
// handler has returned, and everything that finds the answer runs then.
//
// Comments commit to nothing. The first byte is still the other side's, and until then whatever is tried for other
// requests is tried.
type QueueEventStream struct {
	// Relay writes the answer once there is one; Known is told of no other end than those of an answer, and of a client
	// that has gone before there was anything to look for.
	*Relay
	API    openai.API
	Cancel context.CancelCauseFunc // of the relay's context
	// Seek looks for the answer, with Progress and Pulse in its requests. Without one it returns what the client is to
	// be told, or nil if it has gone; and it has taken note of that.
	Resolve func() (*transport.Response, *openai.Error)
	// Crashed takes note of a panic, and says what the client is to be told.
	OnPanic func(panicked, stack string) *openai.Error

	client  io.Writer
	over    bool
	pending hop.Progress // not told yet, unless it is zero
	sent    hop.Progress
	sentAt  time.Time
	wroteAt time.Time
}

// WriteQueueEvents answers with p, whose head goes out at once.
func WriteQueueEvents(rc *fasthttp.RequestCtx, p *QueueEventStream) {
	rc.SetStatusCode(fasthttp.StatusOK)
	rc.Response.Header.SetContentType("text/event-stream")
	_ = rc.SetWriteDeadline(time.Now().Add(netconn.WriteStall))
	rc.Response.ImmediateHeaderFlush = true
	rc.Response.SetBodyStream(p, -1)
}

// WriteTo delivers comments, and then the answer or what there is instead. A panic costs this answer only.
func (p *QueueEventStream) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if with := recover(); with != nil {
			defer p.end()
			err = p.writeRefusal(w, p.OnPanic(server.DescribePanic(with), server.Stack()))
		}
	}()
	p.client, p.wroteAt = w, time.Now()
	p.watchContext()
	answer, refused := p.Resolve()
	if answer == nil {
		return 0, p.writeRefusal(w, refused)
	}
	if p.detach != nil {
		p.detach()
	}
	p.Response = answer
	return p.Relay.WriteTo(w)
}

// writeRefusal ends a stream of which there is no answer. The client hears why, and does not take what it has for an answer.
func (p *QueueEventStream) writeRefusal(w io.Writer, e *openai.Error) error {
	drained := p.Context.Err() != nil
	p.end()
	if e != nil {
		if drained {
			p.Stall = server.FinalWriteTimeout
		}
		_ = p.write(w, openai.NewStream(openai.StreamConfig{API: p.API}).AppendError(nil, e, p.RequestID))
		server.LingerOnClose(p.Client) // a reset would throw it away
	}
	server.TruncateOnClose(p.Client)
	return errTruncated
}

// end lets go of the request.
func (p *QueueEventStream) end() {
	if p.over {
		return
	}
	p.over = true
	if p.detach != nil {
		p.detach()
	}
	if p.closed {
		return // the answer had begun, and its relay has told
	}
	p.closed = true // what is written from here on does not depend on the context
	p.OnClose()
}

// Close ends a stream that was not, or not wholly, written.
func (p *QueueEventStream) Close() error {
	if p.Response != nil {
		return p.Relay.Close()
	}
	if !p.over {
		p.setOutcome(Outcome{Kind: OutcomeClientGone, Err: io.ErrClosedPipe})
		p.end()
	}
	return nil
}

// ReportProgress takes a colo's word of how the request waits there.
func (p *QueueEventStream) ReportProgress(at hop.Progress) {
	p.pending = at
	p.Tick()
}

// ResetProgress says that the request does not wait any more where it did.
func (p *QueueEventStream) ResetProgress() { p.pending = hop.Progress{} }

// Tick says what there is to be said, and when there will be more.
func (p *QueueEventStream) Tick() time.Duration {
	now := time.Now()
	if p.pending == p.sent {
		p.pending = hop.Progress{}
	}
	waits := p.pending != hop.Progress{}
	switch {
	case waits && now.Sub(p.sentAt) >= progressInterval:
		p.sent, p.sentAt, p.pending, waits = p.pending, now, hop.Progress{}, false
		p.writeComment(append(p.sent.Append([]byte(": queue "), ' '), "\n\n"...), now)
	case now.Sub(p.wroteAt) >= heartbeatInterval:
		p.writeComment([]byte(": heartbeat\n\n"), now)
	}
	next := p.wroteAt.Add(heartbeatInterval)
	if due := p.sentAt.Add(progressInterval); waits && due.Before(next) {
		next = due
	}
	return max(next.Sub(now), time.Millisecond)
}

// writeComment writes to a client, whose request ends if it takes nothing, as it would in the middle of its answer.
func (p *QueueEventStream) writeComment(text []byte, now time.Time) {
	p.wroteAt = now
	if err := p.write(p.client, text); err != nil && p.Context.Err() == nil {
		p.Cancel(errors.Join(server.ErrClientGone, err))
	}
}
