package relay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/lazyctx"
)

const (
	// sharedAfter is after how many pieces a stream is shared with others.
	sharedAfter = 4
	// firstChunks is how many chunks of a followed stream have a call of OnChunk each.
	firstChunks = 32
	// chunksOfCall is how many of those after them share one.
	chunksOfCall = 8
)

// errTruncated makes what writes the body close the client's connection without the last chunk, or reset its stream.
var errTruncated = errors.New("response truncated")

// Relay writes the body of a response to the client. It is written after the handler has returned: as the body stream of a
// fasthttp response, an event stream by [server.WriteStream], or the body of a [server.Exchange].
//
// OnOutcome is called exactly once, before the client can know the outcome: before the piece with the API's last event, or the last
// byte, or the error event is written. OnClose is called exactly once after OnOutcome, and before the last byte is written: before
// the last piece of a body of known length, and otherwise after the exchange with the server has ended. All are called by the
// goroutine that calls WriteTo or Close.
type Relay struct {
	Context   context.Context
	Response  *transport.Response
	Client    net.Conn
	Stall     time.Duration // for one write, or up to an eighth less; 0 = 30 s
	RequestID string        // for error events
	OnChunk   func()        // called after each piece, and after many of them not after all; may be nil
	OnOutcome func(Outcome)
	OnClose   func()
	// Backlogs, unless it is nil, lets the relay read ahead while its client does not take what was read before, so that the server need
	// not wait. OnExchangeEnd, which must be set then, is called at most once, before OnOutcome: when the server has properly said everything and its
	// exchange has ended, while the client still has to take what was read.
	Backlogs      *Backlogs
	OnExchangeEnd func()
	OnWrite       func([]byte) // called with each piece of the body before it is written, also of an error event; may be nil
	OnWritten     func()       // called by Close, when nothing more is written; may be nil, and may be called more than once
	// EndUnknown means that nothing but the end of the engine's connection ends the response: it is completed with the reason
	// close_delimited.
	EndUnknown bool

	room       *netconn.RoomProbe // of the client; nil = nothing is read ahead
	shareAfter int                // see followChunked; 0 = sharedAfter
	chunked    bool               // the client gets chunks of its connection, and no other coding
	outcomeSet bool
	closed     bool
	blocked    time.Duration
	stallsAt   time.Time // the write deadline, unless the context has ended
	watch      lazyctx.Hook
	detach     func() // ends watchContext
}

// SupportsBodyWriteTo makes fasthttp call WriteTo: each piece becomes a flushed chunk, and an error truncates the response.
func (r *Relay) SupportsBodyWriteTo() bool { return true }

// Read always fails. fasthttp requires a body stream to be a reader.
func (r *Relay) Read([]byte) (int, error) {
	return 0, errors.New("a relay cannot be read")
}

// WriteTo writes the body. It recovers from panics, which truncate the response.
func (r *Relay) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if recovered := recover(); recovered != nil {
			defer r.Response.Close()
			n, err = r.Response.Size(), server.NewPanicError(recovered)
			_ = r.finish(w, err)
		}
	}()
	return r.deliver(w)
}

// writeAll is WriteTo and Close.
func (r *Relay) writeAll(w io.Writer) error {
	defer func() { _ = r.Close() }()
	_, err := r.WriteTo(w)
	return err
}

func (r *Relay) deliver(w io.Writer) (int64, error) {
	r.watchContext()
	if r.Backlogs != nil {
		r.room = server.NewRoomProbe(r.Client)
	}
	var piece []byte // the next
	var done bool
	var err error
	for {
		if len(piece) == 0 {
			if piece, err = r.Response.Next(); err != nil {
				return r.Response.Size(), r.finish(w, err)
			}
		}
		if len(piece) == 0 {
			continue
		}
		if r.blocks(len(piece)) {
			if piece, done, err = r.readAhead(w, nil, piece); done {
				return r.Response.Size(), err
			}
			continue
		}
		last := r.Response.Done()
		switch stream := r.Response.Stream(); {
		case last:
			end := r.classify(io.EOF)
			if end.Err != nil { // without this piece, the response is cut for the client too
				return r.Response.Size(), r.finish(w, io.EOF)
			}
			r.closeWith(end)
		case stream != nil && stream.Over() && !r.clientGone():
			// The API's last event is in this piece. A client that reads it takes the response for complete.
			r.setOutcome(Outcome{Kind: OutcomeCompleted})
		}
		if err := r.send(w, piece); err != nil {
			r.closeWith(r.writeFailed(err))
			return r.Response.Size(), err
		}
		if r.OnChunk != nil {
			r.OnChunk()
		}
		if last {
			_, _ = r.Response.Next() // frees the connection, whose buffer held the piece
			return r.Response.Size(), nil
		}
		if piece, done, err = r.follow(w); err != nil {
			r.closeWith(r.writeFailed(err))
		}
		if done || err != nil {
			return r.Response.Size(), err
		}
	}
}

// follow writes the pieces of a stream that need no decision. It returns what readAhead does.
func (r *Relay) follow(w io.Writer) (next []byte, done bool, err error) {
	if !r.Response.CanFollow() {
		return nil, false, nil
	}
	if r.chunked {
		if client := server.NewTryWriter(r.Client); client != nil {
			return r.followChunked(w, client)
		}
	}
	var rest []byte
	r.Response.Follow(func(piece []byte) bool {
		if r.blocks(len(piece)) {
			rest = bytes.Clone(piece)
			return false
		}
		if err = r.send(w, piece); err == nil && r.OnChunk != nil {
			r.OnChunk()
		}
		return err == nil
	})
	if rest != nil {
		return r.readAhead(w, nil, rest)
	}
	return nil, false, err
}

// followChunked is follow without waiting, so that one goroutine does it for many relays. It writes past fasthttp, whose buffer is empty
// after each chunk. It waits only for a client that does not take a chunk at once.
func (r *Relay) followChunked(w io.Writer, client *netconn.TryWriter) (next []byte, done bool, err error) {
	var chunk, rest []byte
	written := 0
	for ; ; r.shareAfter *= 2 { // a client that is slow again and again is better served by the relay's own goroutine
		r.shareAfter = max(r.shareAfter, sharedAfter)
		if err := r.moveDeadline(time.Time{}); err != nil {
			return nil, false, err
		}
		r.Response.FollowShared(r.shareAfter, func(piece []byte) bool {
			if r.OnWrite != nil {
				r.OnWrite(piece)
			}
			chunk = server.AppendChunk(chunk[:0], piece)
			n, err := client.Write(chunk)
			if rest = chunk[n:]; len(rest) > 0 || err != nil {
				return false
			}
			if written++; r.OnChunk != nil && (written <= firstChunks || written%chunksOfCall == 0) {
				r.OnChunk()
			}
			return true
		})
		if len(rest) > 0 && r.room != nil && r.Backlogs.begin() {
			r.shareAfter *= 2
			return r.readAhead(w, rest, nil)
		}
		if len(rest) > 0 {
			if err := r.write(r.Client, rest); err != nil {
				return nil, false, err
			}
		}
		if r.OnChunk != nil {
			r.OnChunk()
		}
		if len(rest) == 0 { // what fasthttp writes may wait
			return nil, false, r.moveDeadline(time.Now().Add(r.stall()))
		}
		rest = nil
	}
}

// moveDeadline sets the write deadline, unless the context has ended; zero means none, for writes that do not wait.
func (r *Relay) moveDeadline(to time.Time) error {
	r.stallsAt = to
	if err := r.Client.SetWriteDeadline(to); err != nil {
		return err
	}
	return r.checkContext()
}

// stall returns how long one write may wait.
func (r *Relay) stall() time.Duration { return cmp.Or(r.Stall, netconn.WriteStall) }

// checkContext is called after the write deadline was set: the end of the context moves it afterwards, so either this check or the write
// notices it. After OnClose, which may cancel the context, the error event must still be written.
func (r *Relay) checkContext() error {
	if r.closed || r.Context.Err() == nil {
		return nil
	}
	if r.clientGone() {
		return context.Cause(r.Context)
	}
	_ = r.Client.SetWriteDeadline(r.finalDeadline())
	return nil
}

// watchContext makes the end of the context move the deadline of a write in progress, until detach is called. After detach only
// this goroutine sets deadlines.
func (r *Relay) watchContext() {
	woken := make(chan struct{})
	r.watch.Attach(r.Context, func() {
		defer close(woken)
		_ = r.Client.SetWriteDeadline(r.finalDeadline())
	})
	r.detach = func() {
		r.detach = nil // first, since a second call, as after a panic, would wait forever
		if !r.watch.Stop() {
			<-woken
		}
	}
}

// send writes a piece of the body.
func (r *Relay) send(w io.Writer, p []byte) error {
	if r.OnWrite != nil {
		r.OnWrite(p)
	}
	return r.write(w, p)
}

func (r *Relay) write(w io.Writer, p []byte) error {
	stall, began := r.stall(), time.Now()
	// To move a deadline costs too much to do it for each piece.
	if left := r.stallsAt.Sub(began); r.closed || left < stall-stall/8 || left > stall {
		r.stallsAt = began.Add(stall)
		if err := r.Client.SetWriteDeadline(r.stallsAt); err != nil {
			return err
		}
	}
	if err := r.checkContext(); err != nil {
		return err
	}
	_, err := w.Write(p)
	r.blocked += time.Since(began)
	return err
}

// BlockedOnClient returns how long writes have waited for the client so far. A write blocks only while the buffers between here and a
// client that does not read are full. Only OnChunk, OnOutcome and OnClose may call it.
func (r *Relay) BlockedOnClient() time.Duration { return r.blocked }

// clientGone reports whether the context has ended because the client has gone, and not for a cause of this node.
func (r *Relay) clientGone() bool { return errors.Is(context.Cause(r.Context), server.ErrClientGone) }

// finalDeadline returns the deadline of writes after the end of the context: of a response that this node cancels, the pieces that
// have arrived are still written, and after them the error event.
func (r *Relay) finalDeadline() time.Time {
	if r.clientGone() {
		return netconn.PastDeadline()
	}
	return time.Now().Add(server.FinalWriteTimeout)
}

// finish ends the response for the client, and returns an error if it must not look complete.
func (r *Relay) finish(w io.Writer, err error) error { return r.finishAs(w, r.classify(err)) }

func (r *Relay) finishAs(w io.Writer, end Outcome) error {
	r.closeWith(end)
	if end.Err == nil {
		return nil
	}
	if stream := r.Response.Stream(); stream != nil && !stream.Failed() && end.Kind != OutcomeClientGone {
		if end.Kind == OutcomeDrained {
			r.Stall = server.FinalWriteTimeout
		}
		_ = r.send(w, stream.AppendError(nil, errorEvent(end), r.RequestID))
		server.LingerOnClose(r.Client) // a reset would discard the event
	}
	server.TruncateOnClose(r.Client)
	return errTruncated
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
	defer r.OnClose() // after a panic, too
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

// Close ends a response that was not written to its end. fasthttp calls it after WriteTo, too, when it has no effect.
func (r *Relay) Close() error {
	if r.OnWritten != nil {
		defer r.OnWritten()
	}
	r.closeWith(r.writeFailed(io.ErrClosedPipe))
	r.Response.Close()
	return nil
}
