package relay

import (
	"io"
	"time"
)

// chunkOverhead is more than what a chunk has besides its piece, in bytes.
const chunkOverhead = 32

// blocks reports whether the client would keep a write of n bytes waiting. Then the caller must call readAhead instead.
func (r *Relay) blocks(n int) bool {
	return r.room != nil && !r.room.Has(n+chunkOverhead) && r.Backlogs.begin()
}

// readAhead reads on while the client does not take what was read before: first coded, which is coded for its connection already, and
// then piece. It returns when the client has taken everything, with the next piece if one was read since; or when the response has
// ended, with done and the error of WriteTo.
//
// It waits while not all that has arrived fits the backlog. A server that is ahead of its client by more than that is stopped by the
// kernel's buffers, as without a backlog; the room is for what they hold when it has said everything.
func (r *Relay) readAhead(w io.Writer, coded, piece []byte) (next []byte, done bool, err error) {
	b := newBacklog(r, w, r.Response.Abort().End)
	b.add(coded, true)
	defer func() {
		_ = b.await() // after a panic, too: what follows must not overtake it
		r.Backlogs.end()
		r.stallsAt = time.Time{}
	}()
	var last []byte // from the piece with the end on
	for {
		if last != nil || r.atEnd() {
			last = append(last, piece...)
		} else {
			r.addTo(b, piece)
		}
		if last == nil && !r.awaitRoom(b) {
			if err := b.await(); err != nil {
				r.closeWith(r.writeFailed(err))
				return nil, true, err
			}
			return nil, false, nil
		}
		piece, err = r.Response.Next()
		if err != nil {
			return nil, true, r.finishBehind(b, w, last, err)
		}
		if last == nil && b.written() {
			return piece, false, nil
		}
	}
}

// atEnd reports whether the piece that Next has returned last has the end of the response.
func (r *Relay) atEnd() bool {
	stream := r.Response.Stream()
	return r.Response.Done() || stream != nil && stream.Over()
}

// addTo is send for a piece that the client does not take at once.
func (r *Relay) addTo(b *backlog, piece []byte) {
	if len(piece) == 0 {
		return
	}
	if r.OnWrite != nil {
		r.OnWrite(piece)
	}
	b.add(piece, false)
	if r.OnChunk != nil {
		r.OnChunk()
	}
}

// awaitRoom waits for room in the backlog, and reports whether to read on.
func (r *Relay) awaitRoom(b *backlog) bool {
	began := time.Now()
	defer func() { r.blocked += time.Since(began) }()
	return b.awaitRoom(r.Response.Arrived)
}

// finishBehind is finish for a response that has ended with err before the client has taken the backlog and, with the end, last. Only then is it
// known whether the client gets all of a response that is complete; any other outcome is known now.
func (r *Relay) finishBehind(b *backlog, w io.Writer, last []byte, err error) error {
	if failed := b.failure(); failed != nil || r.clientGone() {
		if failed = b.await(); failed == nil && last == nil {
			return r.finish(w, err)
		}
		r.closeWith(r.writeFailed(failed))
		return errTruncated
	}
	end := r.classify(err)
	r.Response.Close()
	if end.Kind == OutcomeCompleted {
		r.OnExchangeEnd()
	} else {
		r.setOutcome(end)
	}
	if err := b.await(); err != nil {
		r.closeWith(r.writeFailed(err))
		return err
	}
	if end.Err != nil || last == nil {
		return r.finishAs(w, end)
	}
	return r.sendLast(w, last, end)
}

// sendLast writes the end of a response whose exchange has ended.
func (r *Relay) sendLast(w io.Writer, last []byte, end Outcome) error {
	switch {
	case r.clientGone():
		r.closeWith(r.cancelledOutcome())
		return errTruncated
	case r.Response.Length() >= 0:
		r.closeWith(end)
	default:
		r.setOutcome(end)
	}
	if err := r.send(w, last); err != nil {
		r.closeWith(r.writeFailed(err))
		return err
	}
	r.closeWith(end)
	return nil
}
