package entry

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/accounts"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// holdBack is what an entry keeps of a deadline for the way back.
const holdBack = 50 * time.Millisecond

// call is one request in hand, from the handler's start to the answer's end, which for a stream comes after the handler
// has returned. It is used by one goroutine at a time: the connection's.
type call struct {
	*server.Request
	entry *Entry
	rc    *fasthttp.RequestCtx // valid until the answer is written; but for one that is relayed, until the handler returns

	id       string // ours
	clientID string // the client's, as a label
	head
	model *fleet.Model // nil until it is known
	asked string       // the model's name as the client wrote it
	body  openai.Body
	raw   []byte

	handshake *transport.Handshake // the client's; nil unless it wants a WebSocket

	arrived   time.Time
	firstBy   time.Time // by when the client wants a first byte; zero = any time
	end       time.Time // of the whole request
	priority  string
	events    bool                    // the client wants to know how its request waits
	prelude   *relay.QueueEventStream // how it is told, from announce on
	budgeted  bool                    // it pays into the budget of retries: not before it is worth a try
	tries     *tries
	answer    *peer.Answer  // of the last try
	path      []string      // servers tried
	waited    time.Duration // in queues, everywhere
	attempts  int           // at engines, everywhere
	colo      string
	firstByte time.Time
	begun     bool // a begin was logged
	logged    bool // and the one final event
}

// newCall takes the request in hand. leave must follow.
func (e *Entry) newCall(rc *fasthttp.RequestCtx) *call {
	var id [16]byte
	_, _ = rand.Read(id[:]) // does not fail since Go 1.24
	return &call{Request: e.inHand.Begin(), entry: e, rc: rc, id: hex.EncodeToString(id[:]), arrived: time.Now()}
}

// leave lets go of everything that the request has, once.
func (c *call) leave() {
	defer c.letGo() // also if the log should panic
	if c.begun && !c.logged {
		c.logLost()
	}
}

func (c *call) letGo() {
	if c.model != nil {
		c.entry.active.add(c.model.Name, -1)
		c.model = nil
	}
	if c.Close() && c.budgeted {
		c.entry.budget.End()
	}
}

// header returns a request header as a string of its own.
func (c *call) header(name string) string { return string(c.rc.Request.Header.Peek(name)) }

// label keeps what the client calls its request.
func (c *call) label() {
	if id := c.header(hop.HeaderRequestID); isRequestID(id) {
		c.clientID = id
	}
}

// identify finds the account.
func (c *call) identify(t *fleet.Table) *openai.Error {
	return c.identifyBy(t, accounts.Bearer(c.header("Authorization")))
}

// identifyBy finds the account by an API key.
func (c *call) identifyBy(t *fleet.Table, key string) *openai.Error {
	caller, err := c.entry.identify(t, key, c.arrived)
	if err == nil {
		c.caller = caller
	}
	return err
}

// resolve finds the model that is asked for by name, if the caller may use it.
func (c *call) resolve(t *fleet.Table, name string) *openai.Error {
	c.asked = name
	m, ok := t.Model(name)
	if !ok {
		return openai.ModelNotFound(name)
	}
	if !c.caller.MayUse(m.Name) {
		return openai.ModelNotAllowed(name)
	}
	c.model = m
	c.entry.active.add(m.Name, 1)
	return nil
}

// setDeadlines reads how long the client wants to wait. Each of its headers caps the wait for the first byte.
func (c *call) setDeadlines() *openai.Error {
	c.end = c.arrived.Add(c.model.Timeouts.Total.Std())
	for _, h := range [...]struct {
		name string
		unit time.Duration
	}{
		{hop.HeaderDeadlineMS, time.Millisecond},
		{hop.HeaderStainlessTimeout, time.Second},
		{hop.HeaderStainlessReadTimeout, time.Second},
	} {
		value := c.header(h.name)
		if value == "" {
			continue
		}
		limit, ok := duration(value, h.unit)
		if !ok {
			if h.name != hop.HeaderDeadlineMS {
				continue // an SDK's own word for "none"
			}
			return openai.InvalidRequest("", "the header %s is %.40q: it must be a number of milliseconds above 0",
				h.name, value)
		}
		if h.name == hop.HeaderDeadlineMS && limit <= holdBack {
			return openai.InvalidRequest("", "the header %s is %.40q: it must be above %d, which is kept for the way back", h.name, value, holdBack.Milliseconds())
		}
		if by := c.arrived.Add(limit); c.firstBy.IsZero() || by.Before(c.firstBy) {
			c.firstBy = by
		}
	}
	return nil
}

// duration reads a positive number of units, at most a day.
func duration(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || n <= 0 {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(24*time.Hour))), true
}

// queueing reads whether the client wants to queue.
func (c *call) queueing() (queueing, *openai.Error) {
	switch q := queueing(c.header(hop.HeaderQueue)); q {
	case queueAsNeeded, queueNever, queueWait:
		return q, nil
	default:
		return "", openai.InvalidRequest("", "the header %s is %.40q: it must be never or wait",
			hop.HeaderQueue, string(q))
	}
}

// readPriority is the account's, unless the client asks for a lower one.
func (c *call) readPriority() (string, *openai.Error) {
	own := c.caller.Account.Priority
	asked := c.header(hop.HeaderPriority)
	if asked == "" {
		return own, nil
	}
	rank := func(p string) int {
		switch p {
		case fleet.PriorityInteractive:
			return 0
		case fleet.PriorityStandard:
			return 1
		case fleet.PriorityBatch:
			return 2
		}
		return -1
	}
	switch r := rank(asked); {
	case r < 0:
		return "", openai.InvalidRequest("", "the header %s is %.40q: it must be interactive, standard or batch",
			hop.HeaderPriority, asked)
	case r > rank(own):
		return asked, nil
	}
	return own, nil
}
