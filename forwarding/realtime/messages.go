package realtime

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/openai"
)

// tally counts what went one way.
type tally struct{ messages, bytes atomic.Int64 }

// carrier relays messages one way, in pieces: what has come of a message goes on before the rest is there.
type carrier struct {
	from, to *peer
	tally    *tally
	said     *openai.Conversation // is told of each message; may be nil
	pace     *pace                // nil = as fast as they come
	pieces   *sync.Pool           // see [Buffers]
}

// run relays until one of the peers fails.
func (c *carrier) run() failure {
	for {
		kind, message, err := c.from.ws.NextReader()
		if err != nil {
			return c.from.unread(err)
		}
		if why := c.relay(kind, message); why != nil {
			return *why
		}
		if c.said != nil {
			c.said.EndMessage() // also if it reaches nobody any more: the engine has said it
		}
		if err := c.to.finish(); err != nil {
			return failure{side: c.to.side, writing: true, err: err}
		}
		c.from.wire.earn(messageEarns)
		c.tally.messages.Add(1)
		if c.pace != nil {
			time.Sleep(c.pace.take(time.Now()))
		}
	}
}

// relay passes one message on, but for its end.
func (c *carrier) relay(kind int, message io.Reader) *failure {
	if err := c.to.start(kind); err != nil {
		return &failure{side: c.to.side, writing: true, err: err}
	}
	piece := borrow(c.pieces) // not held while nothing is said: most sessions are silent most of the time
	defer c.pieces.Put(piece)
	var text textCheck
	for {
		n, err := message.Read(*piece)
		c.from.wire.earn(2 * int64(n)) // what it took to send that much may be as much again
		c.tally.bytes.Add(int64(n))
		whole := errors.Is(err, io.EOF)
		if kind == websocket.TextMessage && (!text.valid((*piece)[:n]) || whole && !text.whole()) {
			return &failure{side: c.from.side, err: errNotText}
		}
		if c.said != nil {
			c.said.Write((*piece)[:n])
		}
		if _, err := c.to.message.Write((*piece)[:n]); err != nil {
			return &failure{side: c.to.side, writing: true, err: err}
		}
		if whole {
			return nil
		}
		if err != nil {
			why := c.from.unread(err)
			return &why
		}
	}
}

// Buffers is memory that sessions and tunnels share. Its zero value is ready, and must not be copied.
type Buffers struct {
	pieces sync.Pool // of *[]byte, for what is read
	frames sync.Pool // for what is written; gorilla/websocket knows what is in it
}

// borrow takes a piece of memory for reading, which the caller puts back.
func borrow(pieces *sync.Pool) *[]byte {
	if p, ok := pieces.Get().(*[]byte); ok {
		return p
	}
	p := make([]byte, relayPiece)
	return &p
}

const (
	// messageRate is how many messages a second a client may send for long, and messageBurst how many at once: the
	// speech of a few minutes in pieces of 20 ms. Above that they are read more slowly, which holds the client up and
	// no one else.
	messageRate  = 1000
	messageBurst = 10_000
	// paceStep is the least that a client who is too fast is held up, so that it is not done message by message.
	paceStep = 20 * time.Millisecond
)

// pace slows down who sends too many messages. The zero value is ready.
type pace struct {
	spent time.Time // by when what was sent would have been fine at the rate
}

// take notes one message, and says how long to wait before the next.
func (p *pace) take(now time.Time) time.Duration {
	if p.spent.Before(now) {
		p.spent = now
	}
	p.spent = p.spent.Add(time.Second / messageRate)
	ahead := p.spent.Sub(now) - messageBurst*time.Second/messageRate
	if ahead < paceStep {
		return 0
	}
	return ahead
}
