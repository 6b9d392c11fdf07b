package simengine

import (
	"errors"
	"io"
	"net"
)

const (
	eventStream = "text/event-stream"
	lineStream  = "application/x-ndjson"

	// fewTokens is the number of tokens that a stream has before a fault in its middle.
	fewTokens = 3

	doneEvent = "data: [DONE]\n\n"
	pingEvent = ": ping\n\n"
	afterEnd  = "data: {\"late\":true}\n\n: late\n\n"

	lineAfterEnd = "{\"late\":true}\n"
)

// errCut makes the connection close without the answer's end.
var errCut = errors.New("the answer is cut as a fault demands")

// stream writes the answer piece by piece.
func (j *job) stream(a *answer) error {
	j.head(a.streamType, -1)
	if j.fault == FaultShortBody {
		j.head(a.streamType, len(a.open)+len(a.tail)+len(a.end)+shortBy+a.tokens*shortBy)
	}
	if j.fault == FaultCutUnframed {
		j.w.Header().Set("Transfer-Encoding", "identity") // so net/http sends no chunks
	}
	if err := j.openStream(a); err != nil {
		return err
	}
	breakAt := min(fewTokens, a.tokens)
	for i := range a.tokens + 1 {
		if i == breakAt {
			if over, err := j.injectFault(a, i); over {
				return err
			}
		}
		if i == a.tokens {
			break
		}
		if err := j.sendToken(a, i); err != nil {
			return err
		}
	}
	j.leaveServed()
	j.buf = append(append(j.buf[:0], a.tail...), a.end...)
	return j.last(j.buf, a.streamType)
}

// openStream sends the part before the first token.
func (j *job) openStream(a *answer) error {
	if j.fault == FaultPingFirst && a.streamType != lineStream { // which has no comments
		if err := j.send([]byte(pingEvent)); err != nil {
			return err
		}
	}
	if len(a.open) == 0 {
		return nil
	}
	return j.send(a.open)
}

func (j *job) sendToken(a *answer, i int) error {
	if err := j.clock.until(j.ctx, i+1); err != nil {
		return err
	}
	j.countTokens(1)
	j.buf = a.token(j.buf[:0], i)
	return j.send(j.buf)
}

// injectFault does what the fault demands after some tokens. It reports whether the answer is over.
func (j *job) injectFault(a *answer, sent int) (over bool, err error) {
	switch j.fault {
	case FaultStallStream:
		return true, j.stall()
	case FaultCutAtChunk:
		j.ticket.leave(outcomeFaulted)
		return true, errCut
	case FaultCutInChunk:
		j.ticket.leave(outcomeFaulted)
		return true, j.cutInChunk(a, sent)
	case FaultCutUnframed:
		j.ticket.leave(outcomeFaulted)
		return true, nil
	case FaultNoDone:
		if len(a.end) == 0 {
			return false, nil // this API has no end of its own to leave out
		}
		j.ticket.leave(outcomeFaulted)
		return true, nil
	case FaultErrorThenDone:
		if a.fail == nil && !a.mute {
			return false, nil // this API has no error event
		}
		j.ticket.leave(outcomeFaulted)
		if a.mute {
			return true, nil
		}
		return true, j.send(append(a.failAfter(sent), a.afterFail...))
	case FaultErrorThenCut:
		j.ticket.leave(outcomeFaulted)
		if a.fail == nil {
			return true, errCut
		}
		return true, errors.Join(j.send(a.failAfter(sent)), errCut)
	}
	return false, nil
}

// failAfter is the error event after so many tokens.
func (a *answer) failAfter(sent int) []byte {
	return a.fail(nil, failPoint{opened: true, tokens: sent, err: engineFailed()})
}

// cutInChunk announces a chunk, sends the first half of it, and closes.
func (j *job) cutInChunk(a *answer, sent int) error {
	piece := a.tail
	if sent < a.tokens {
		piece = a.token(nil, sent)
	}
	return j.hijack(func(c net.Conn) error {
		b := appendChunkHead(nil, len(piece)+1)
		_, err := c.Write(append(b, piece[:len(piece)/2]...))
		return err
	})
}

// closeIdle ends the answer as keep-alive allows, and then closes the connection.
func (j *job) closeIdle(chunked bool) error {
	return j.hijack(func(c net.Conn) error {
		if !chunked {
			return nil
		}
		_, err := io.WriteString(c, "0\r\n\r\n")
		return err
	})
}

// halved splits a whole answer into two pieces, so that a fault can happen between them.
func halved(a *answer) *answer {
	body := a.whole()
	half := len(body) / 2
	return &answer{
		tokens: fewTokens + 1, streamed: true, streamType: a.wholeType, open: body[:half],
		token: func(dst []byte, i int) []byte {
			if i < fewTokens {
				return append(dst, body[half+i])
			}
			return append(dst, body[half+i:]...)
		},
	}
}
