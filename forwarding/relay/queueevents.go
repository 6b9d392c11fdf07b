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
	// newsEvery is how often a client is told how its request waits, at most.
	newsEvery = time.Second
	// heartbeat is the longest silence before the first byte.
	heartbeat = 5 * time.Second
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

	client io.Writer
	over   bool
	news   hop.Progress // not told yet, unless it is zero
	told   hop.Progress
	toldAt time.Time
	spoke  time.Time
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
			defer p.close()
			err = p.decline(w, p.OnPanic(server.DescribePanic(with), server.Stack()))
		}
	}()
	p.client, p.spoke = w, time.Now()
	p.follow()
	answer, refused := p.Resolve()
	if answer == nil {
		return 0, p.decline(w, refused)
	}
	if p.settle != nil {
		p.settle()
	}
	p.Response = answer
	return p.Relay.WriteTo(w)
}

// decline ends a stream of which there is no answer. The client hears why, and does not take what it has for an answer.
func (p *QueueEventStream) decline(w io.Writer, e *openai.Error) error {
	drained := p.Context.Err() != nil
	p.close()
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

// close lets go of the request.
func (p *QueueEventStream) close() {
	if p.over {
		return
	}
	p.over = true
	if p.settle != nil {
		p.settle()
	}
	if p.ended {
		return // the answer had begun, and its relay has told
	}
	p.ended = true // what is written from here on does not depend on the context
	p.OnClose()
}

// Close ends a stream that was not, or not wholly, written.
func (p *QueueEventStream) Close() error {
	if p.Response != nil {
		return p.Relay.Close()
	}
	if !p.over {
		p.know(Outcome{Kind: OutcomeClientGone, Err: io.ErrClosedPipe})
		p.close()
	}
	return nil
}

// ReportProgress takes a colo's word of how the request waits there.
func (p *QueueEventStream) ReportProgress(at hop.Progress) {
	p.news = at
	p.Tick()
}

// ResetProgress says that the request does not wait any more where it did.
func (p *QueueEventStream) ResetProgress() { p.news = hop.Progress{} }

// Tick says what there is to be said, and when there will be more.
func (p *QueueEventStream) Tick() time.Duration {
	now := time.Now()
	if p.news == p.told {
		p.news = hop.Progress{}
	}
	waits := p.news != hop.Progress{}
	switch {
	case waits && now.Sub(p.toldAt) >= newsEvery:
		p.told, p.toldAt, p.news, waits = p.news, now, hop.Progress{}, false
		p.comment(append(p.told.Append([]byte(": queue "), ' '), "\n\n"...), now)
	case now.Sub(p.spoke) >= heartbeat:
		p.comment([]byte(": heartbeat\n\n"), now)
	}
	next := p.spoke.Add(heartbeat)
	if due := p.toldAt.Add(newsEvery); waits && due.Before(next) {
		next = due
	}
	return max(next.Sub(now), time.Millisecond)
}

// comment writes to a client, whose request ends if it takes nothing, as it would in the middle of its answer.
func (p *QueueEventStream) comment(text []byte, now time.Time) {
	p.spoke = now
	if err := p.write(p.client, text); err != nil && p.Context.Err() == nil {
		p.Cancel(errors.Join(server.ErrClientGone, err))
	}
}
