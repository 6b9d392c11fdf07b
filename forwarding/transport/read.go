package transport

import (
	"errors"
	"io"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/openai"
)

// readFirst reads up to the first byte: a small body as a whole, or a stream up to its first event.
func (resp *Response) readFirst(s *ReadOptions) error {
	resp.api = s.API
	framing := openai.FramingOf(s.API, []byte(resp.head.get("content-type")))
	resp.renamer = newRenamer(s.AnswerModel, &resp.head, framing)
	if framing != openai.NoFraming && resp.head.status < 300 && !resp.head.encoded {
		resp.stream = openai.NewStream(openai.StreamConfig{API: s.API, Dialect: s.Dialect, Framing: framing, StripUsage: s.StripUsage,
			Translate: s.Translate, Parts: s.Parts})
		return resp.readFirstEvent()
	}
	atMost := max(s.Hold, maxHeld)
	if resp.head.length > int64(atMost) {
		resp.trackUsage(s)
		_, err := resp.readSome()
		return err
	}
	for len(resp.held) <= atMost {
		more, err := resp.readSome()
		if err != nil {
			return err
		}
		if !more {
			resp.whole = true
			resp.finish()
			return nil
		}
	}
	resp.trackUsage(s)
	return nil
}

// trackUsage begins to scan the body for its usage and its end.
func (resp *Response) trackUsage(s *ReadOptions) {
	if s.TrackUsage && resp.IsJSON() {
		resp.usage = &openai.UsageScanner{API: s.API}
	}
}

// readSome adds the next piece to held. It reports false at the end of the body.
func (resp *Response) readSome() (bool, error) {
	piece, err := resp.body.next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if resp.held == nil && resp.body.framing == framingLength {
		resp.takeBodyMemory()
	}
	resp.held = append(resp.held, resp.renamer.rename(piece)...)
	return true, err
}

func (resp *Response) readFirstEvent() error {
	for len(resp.held) <= maxHeld {
		piece, err := resp.body.next()
		if errors.Is(err, io.EOF) {
			return errEmptyStream
		}
		if err != nil {
			return err
		}
		resp.held = append(resp.held, resp.renamer.rename(resp.stream.Feed(piece))...)
		if err := resp.stream.Err(); err != nil {
			return err
		}
		if first, _ := resp.stream.First(); first != openai.NoEvent {
			return nil
		}
	}
	return nil
}

var errEmptyStream = errors.New("stream ended before its first event")

// Next returns the next bytes of the body, which are valid until the following call; there may be none. At the end of a complete body
// it returns io.EOF, otherwise an [ExchangeError] or the context's cause.
func (resp *Response) Next() ([]byte, error) {
	if held := resp.held; held != nil {
		resp.held = nil
		resp.delivered(held)
		return held, nil
	}
	if resp.conn == nil {
		return nil, io.EOF
	}
	if resp.stream != nil && resp.stream.AtEnd() {
		if resp.stream.Trailing() {
			resp.Close() // whatever follows, the stream has ended; and its server is not trusted with another request
			return nil, io.EOF
		}
		resp.limitFraming()
	}
	piece, err := resp.pull()
	switch {
	case errors.Is(err, io.EOF):
		resp.finish()
		return resp.streamTail()
	case resp.stream != nil && resp.stream.Err() != nil:
		return nil, &ExchangeError{Phase: PhaseStream, Err: resp.stream.Err()}
	case err != nil:
		return nil, exchangeError(resp.ctx, PhaseStream, err)
	}
	resp.delivered(piece)
	return piece, nil
}

// pulled is what pull has returned to Follow, and is left for Next.
type pulled struct {
	piece []byte
	err   error
}

// pull reads the next piece, which of a stream is what the client gets of it.
func (resp *Response) pull() ([]byte, error) {
	if p := resp.pulled; p != nil {
		resp.pulled = nil
		return p.piece, p.err
	}
	piece, err := resp.body.next()
	if err == nil && resp.stream != nil {
		piece, err = resp.stream.Feed(piece), resp.stream.Err()
	}
	return resp.renamer.rename(piece), err
}

// Follow passes the bytes of an event stream to use as they arrive, all that have arrived together at once, while use returns true. It
// ends before the piece with the API's last event, and before any failure, which Next returns then; for a response that is no stream it ends
// at once. Follow takes the place of calls of Next, and costs less: see [netconn.Conn.Poll]. use must not call a method of the response.
func (resp *Response) Follow(use func(p []byte) bool) {
	if resp.CanFollow() {
		resp.conn.Poll(resp.step(use))
		resp.borrowReader()
	}
}

// FollowShared is Follow for a use that never waits. Another goroutine may call it after a number of steps: see [netconn.Conn.PollShared].
func (resp *Response) FollowShared(after int, use func(p []byte) bool) {
	if resp.CanFollow() {
		resp.conn.PollShared(after, resp.step(use))
		resp.borrowReader()
	}
}

// CanFollow reports whether Follow and FollowShared have an effect.
func (resp *Response) CanFollow() bool {
	return resp.conn != nil && resp.stream != nil && resp.held == nil && !resp.stream.AtEnd() && resp.conn.CanPoll()
}

// step returns the step of Follow.
func (resp *Response) step(use func(p []byte) bool) func() bool {
	var arrived []byte
	return func() bool {
		resp.borrowReader()
		for {
			piece, err := resp.pull()
			waits := errors.Is(err, netconn.ErrWouldBlock)
			ends := err != nil && !waits || resp.stream.AtEnd()
			if ends {
				resp.pulled = &pulled{piece, err}
			} else if !waits {
				resp.delivered(piece)
				if arrived = append(arrived, piece...); len(arrived) < readBuffer {
					continue
				}
			}
			if len(arrived) > 0 && !use(arrived) {
				return false
			}
			arrived = arrived[:0]
			if waits {
				resp.returnReader()
			}
			if waits || ends {
				return waits
			}
		}
	}
}

// borrowReader gives the connection a reader for a step, unless it has one.
func (resp *Response) borrowReader() {
	if c := resp.conn; c.br == nil {
		resp.transport.takeReader(c)
		resp.body.br = c.br
	}
}

// returnReader returns the reader unless it holds bytes. A stream that is silent needs no buffer, and one that many streams share in turns is
// in the processor's cache.
func (resp *Response) returnReader() {
	if c := resp.conn; c.br.Buffered() == 0 {
		resp.transport.releaseReader(c)
		resp.body.br = nil
	}
}

// limitFraming sets the deadline for the framing behind the end of a stream, once.
func (resp *Response) limitFraming() {
	if resp.ending {
		return
	}
	resp.ending = true
	if by := time.Now().Add(framingGrace); resp.conn.Deadline.IsZero() || by.Before(resp.conn.Deadline) {
		resp.conn.Deadline = by
	}
}

// delivered counts and scans what Next returns.
func (resp *Response) delivered(piece []byte) {
	resp.size += int64(len(piece))
	if resp.usage != nil {
		resp.usage.Write(piece)
	}
}

// streamTail returns what is left of a stream that ended without an empty line, or io.EOF.
func (resp *Response) streamTail() ([]byte, error) {
	if resp.stream != nil {
		if tail := resp.renamer.rename(resp.stream.Finish()); len(tail) > 0 {
			resp.size += int64(len(tail))
			return tail, nil
		}
	}
	return nil, io.EOF
}
