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

// counters are the messages and bytes of one direction.
type counters struct{ messages, bytes atomic.Int64 }

// messageRelay relays the messages of one direction in pieces, before they are complete.
type messageRelay struct {
	from, to     *wsEnd
	counters     *counters
	conversation *openai.Conversation // follows the messages of an engine; may be nil
	events       *openai.ClientEvents // follows those of a client; may be nil
	limiter      *rateLimiter         // nil = no limit
	pieces       *sync.Pool           // see [Buffers]
}

var errForeignModel = errors.New("message names another model than the session's, or is not valid JSON")

// run relays messages until an end fails.
func (c *messageRelay) run() failure {
	for {
		kind, message, err := c.from.ws.NextReader()
		if err != nil {
			return c.from.readFailure(err)
		}
		if failed := c.copyMessage(kind, message); failed != nil {
			return *failed
		}
		if c.events != nil && !c.events.EndMessage(kind == websocket.TextMessage) {
			return failure{side: c.from.side, err: errForeignModel} // the engine does not get the end of the message
		}
		if c.conversation != nil {
			c.conversation.EndMessage() // even if the client does not get it: the engine has generated it
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

// copyMessage relays a message up to its end, which the caller sends.
func (c *messageRelay) copyMessage(kind int, message io.Reader) *failure {
	if err := c.to.start(kind); err != nil {
		return &failure{side: c.to.side, writing: true, err: err}
	}
	piece := getPiece(c.pieces) // only for the time of a message: most sessions are silent most of the time
	defer c.pieces.Put(piece)
	var text utf8Checker
	for {
		n, err := message.Read(*piece)
		c.from.conn.credit(2 * int64(n)) // the payload, and as much again for its frames
		c.counters.bytes.Add(int64(n))
		whole := errors.Is(err, io.EOF)
		if kind == websocket.TextMessage && (!text.valid((*piece)[:n]) || whole && !text.whole()) {
			return &failure{side: c.from.side, err: errNotUTF8}
		}
		if c.conversation != nil {
			c.conversation.Write((*piece)[:n])
		}
		if c.events != nil {
			c.events.Write((*piece)[:n])
		}
		if _, err := c.to.message.Write((*piece)[:n]); err != nil {
			return &failure{side: c.to.side, writing: true, err: err}
		}
		if whole {
			return nil
		}
		if err != nil {
			failed := c.from.readFailure(err)
			return &failed
		}
	}
}

// Buffers is memory that sessions and tunnels share. The zero value is ready. It must not be copied.
type Buffers struct {
	pieces sync.Pool // of *[]byte, for reading
	frames sync.Pool // for writing, as a pool of gorilla/websocket
}

// getPiece returns memory for a read, which the caller must put back.
func getPiece(pieces *sync.Pool) *[]byte {
	if p, ok := pieces.Get().(*[]byte); ok {
		return p
	}
	p := make([]byte, pieceSize)
	return &p
}

const (
	// messageRate is how many messages per second a client may send, and messageBurst how many at once: a few minutes of speech in
	// pieces of 20 ms. Beyond that the client is read more slowly.
	messageRate  = 1000
	messageBurst = 10_000
	// minDelay is the shortest delay of a client that is too fast, so that not every message is delayed.
	minDelay = 20 * time.Millisecond
)

// rateLimiter delays a client that sends too many messages. It is a generic cell rate algorithm. The zero value is ready.
type rateLimiter struct {
	earliest time.Time // when the messages so far could all have been sent at messageRate
}

// take counts a message, and returns how long to wait before the next is read.
func (l *rateLimiter) take(now time.Time) time.Duration {
	if l.earliest.Before(now) {
		l.earliest = now
	}
	l.earliest = l.earliest.Add(time.Second / messageRate)
	ahead := l.earliest.Sub(now) - messageBurst*time.Second/messageRate
	if ahead < minDelay {
		return 0
	}
	return ahead
}
