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

// counters counts what went one way.
type counters struct{ messages, bytes atomic.Int64 }

// messageRelay relays messages one way, in pieces: what has come of a message goes on before the rest is there.
type messageRelay struct {
	from, to     *wsEnd
	counters     *counters
	conversation *openai.Conversation // is told of each message; may be nil
	limiter      *rateLimiter         // nil = as fast as they come
	pieces       *sync.Pool           // see [Buffers]
}

// run relays until one of the peers fails.
func (c *messageRelay) run() failure {
	for {
		kind, message, err := c.from.ws.NextReader()
		if err != nil {
			return c.from.readFailure(err)
		}
		if why := c.copyMessage(kind, message); why != nil {
			return *why
		}
		if c.conversation != nil {
			c.conversation.EndMessage() // also if it reaches nobody any more: the engine has said it
		}
		if err := c.to.finish(); err != nil {
			return failure{side: c.to.side, writing: true, err: err}
		}
		c.from.conn.credit(messageCredit)
		c.counters.messages.Add(1)
		if c.limiter != nil {
			time.Sleep(c.limiter.take(time.Now()))
		}
	}
}

// copyMessage passes one message on, but for its end.
func (c *messageRelay) copyMessage(kind int, message io.Reader) *failure {
	if err := c.to.start(kind); err != nil {
		return &failure{side: c.to.side, writing: true, err: err}
	}
	piece := getPiece(c.pieces) // not held while nothing is said: most sessions are silent most of the time
	defer c.pieces.Put(piece)
	var text utf8Checker
	for {
		n, err := message.Read(*piece)
		c.from.conn.credit(2 * int64(n)) // what it took to send that much may be as much again
		c.counters.bytes.Add(int64(n))
		whole := errors.Is(err, io.EOF)
		if kind == websocket.TextMessage && (!text.valid((*piece)[:n]) || whole && !text.whole()) {
			return &failure{side: c.from.side, err: errNotUTF8}
		}
		if c.conversation != nil {
			c.conversation.Write((*piece)[:n])
		}
		if _, err := c.to.message.Write((*piece)[:n]); err != nil {
			return &failure{side: c.to.side, writing: true, err: err}
		}
		if whole {
			return nil
		}
		if err != nil {
			why := c.from.readFailure(err)
			return &why
		}
	}
}

// Buffers is memory that sessions and tunnels share. Its zero value is ready, and must not be copied.
type Buffers struct {
	pieces sync.Pool // of *[]byte, for what is read
	frames sync.Pool // for what is written; gorilla/websocket knows what is in it
}

// getPiece takes a piece of memory for reading, which the caller puts back.
func getPiece(pieces *sync.Pool) *[]byte {
	if p, ok := pieces.Get().(*[]byte); ok {
		return p
	}
	p := make([]byte, pieceSize)
	return &p
}

const (
	// messageRate is how many messages a second a client may send for long, and messageBurst how many at once: the
	// speech of a few minutes in pieces of 20 ms. Above that they are read more slowly, which holds the client up and
	// no one else.
	messageRate  = 1000
	messageBurst = 10_000
	// minDelay is the least that a client who is too fast is held up, so that it is not done message by message.
	minDelay = 20 * time.Millisecond
)

// rateLimiter slows down who sends too many messages. The zero value is ready.
type rateLimiter struct {
	spent time.Time // by when what was sent would have been fine at the rate
}

// take notes one message, and says how long to wait before the next.
func (p *rateLimiter) take(now time.Time) time.Duration {
	if p.spent.Before(now) {
		p.spent = now
	}
	p.spent = p.spent.Add(time.Second / messageRate)
	ahead := p.spent.Sub(now) - messageBurst*time.Second/messageRate
	if ahead < minDelay {
		return 0
	}
	return ahead
}
