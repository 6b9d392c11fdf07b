package entry

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/analytics/capture"
	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
	"colonnade/internal/ascii"
	"colonnade/openai"
	"colonnade/tracing"
)

// idSize is the size of ids of requests and of their events, in bytes.
const idSize = 16

// reservedForReturn is the least part of a deadline that an entry keeps for the way back to the client; see [call.reserved].
const reservedForReturn = 50 * time.Millisecond

// call is one request in flight, from the handler's start to the answer's end, which for a stream comes after the handler has
// returned. One goroutine uses it at a time: that of the client's connection.
type call struct {
	*server.Request
	entry *Entry
	rc    *fasthttp.RequestCtx // valid until the handler returns

	// Known at once.
	id      string    // ours: 128 random bits in hex
	eventID string    // of both its events
	arrived time.Time // when the whole request had arrived

	// From the head.
	clientID string // the client's x-request-id, if it can be a label
	head

	// From the body, or of a WebSocket from the handshake.
	raw        []byte // the body as received, or with a bound on its output
	body       openai.Body
	handshake  *transport.Handshake // the client's; nil unless it asks for a WebSocket
	askedModel string               // the model's name as the client wrote it
	answerName string               // of the model in the answer; empty = as the engine writes it
	model      *fleet.Model         // nil until it is known

	// From plan on.
	firstByteDeadline time.Time // the client's own deadline for the first byte; zero = none
	deadline          time.Time // of the whole request
	priority          string
	limited           bool // raw may have a bound on its output that body does not describe
	wantsQueueEvents  bool
	countsInBudget    bool // budget.Begin was called
	forced            bool // to one colo, by an operator
	beginLogged       bool // exactly one final event follows a begin event
	endLogged         bool
	hadPlace          bool                    // of all attempts so far: in a queue, and has lost it
	queueEvents       *relay.QueueEventStream // nil unless the answer has begun with queue events
	attempts          *attempts
	fallbacks         *fallbacks   // nil = no other model may serve the request
	table             *fleet.Table // the newest that the attempts go by
	limits            *callLimits  // nil = nothing bounds the caller's requests or tokens

	capture *capture.Record // nil = nothing of the request is captured

	// Of all attempts so far.
	path           []string      // servers tried
	waited         time.Duration // in queues of all colos
	engineAttempts int           // in all colos

	// Of the last attempt.
	attemptBegan time.Time
	answer       *peer.Answer
	servedBy     *fleet.Colo // nil = no colo serves the request
	firstByte    time.Time

	trace *tracing.Trace // nil = headers of traces are passed on as they came

	first peer.Request // to the first server; most requests need no other
}

// newCall begins a request that arrives now; close must follow.
func (e *Entry) newCall(rc *fasthttp.RequestCtx, now time.Time) *call {
	var random [2 * idSize]byte
	_, _ = rand.Read(random[:]) // does not fail since Go 1.24
	var text [2 * len(random)]byte
	hex.Encode(text[:], random[:])
	ids := string(text[:])
	return &call{
		Request: e.inflight.Begin(), entry: e, rc: rc, arrived: now,
		id: ids[:len(ids)/2], eventID: ids[len(ids)/2:],
	}
}

// close releases everything that the request holds; further calls do nothing.
func (c *call) close() {
	defer c.release() // also if logging panics
	if c.beginLogged && !c.endLogged {
		c.logCrash()
	}
}

func (c *call) release() {
	if c.model != nil {
		c.entry.active.add(c.model.Name, -1)
		c.model = nil
	}
	if c.Close() && c.countsInBudget {
		c.entry.budget.End()
	}
}

// readRequestID keeps the client's own request id as a label.
func (c *call) readRequestID() {
	if id := c.header(requestIDHeader); isRequestID(id) {
		c.clientID = id
	}
}

// identify finds the account by the API key that the head has, or that others have.
func (c *call) identify(t *fleet.Table, others ...string) *openai.Error {
	caller, err := c.entry.identify(t, keyOf(&c.rc.Request.Header, others...), c.page, c.arrived)
	if err == nil {
		c.caller = caller
	}
	return err
}

// resolveModel finds the model by name. One that the account may not use does not exist for it.
func (c *call) resolveModel(t *fleet.Table, name string) *openai.Error {
	if name == "" {
		var err *openai.Error
		if name, err = c.unnamedModel(t); err != nil {
			return err
		}
	}
	c.askedModel = name
	m, ok := t.Model(name)
	if !ok || !c.caller.MayUse(m.Name) {
		return openai.ModelNotFound(name) // an account learns nothing about models that it may not use
	}
	c.useModel(m)
	return nil
}

// deadlineHeaders are the headers in which clients send their own time limits.
var deadlineHeaders = [...]struct {
	name  server.HeaderName
	unit  time.Duration
	bySDK bool
}{
	{server.NewHeaderName(hop.HeaderDeadlineMS), time.Millisecond, false},
	{server.NewHeaderName(hop.HeaderStainlessTimeout), time.Second, true},
	{server.NewHeaderName(hop.HeaderStainlessReadTimeout), time.Second, true},
}

// setDeadlines reads the client's own time limits. Each of its headers caps the wait for the first byte.
func (c *call) setDeadlines() *openai.Error {
	c.deadline = c.arrived.Add(c.model.Timeouts.Total.Std())
	for i := range deadlineHeaders {
		h := &deadlineHeaders[i]
		value := c.header(h.name)
		if value == "" {
			continue
		}
		limit, ok := duration(value, h.unit)
		if !ok {
			if h.bySDK {
				continue // an SDK writes "none" in its own way
			}
			return openai.InvalidRequest("", "the header %s is %.40q: it must be a number of milliseconds above 0",
				h.name, value)
		}
		if !h.bySDK && limit <= reservedForReturn {
			return openai.InvalidRequest("", "the header %s is %.40q: it must be above %d, which is kept for the way back", h.name, value, reservedForReturn.Milliseconds())
		}
		if by := c.arrived.Add(limit); c.firstByteDeadline.IsZero() || by.Before(c.firstByteDeadline) {
			c.firstByteDeadline = by
		}
	}
	return nil
}

// duration parses a positive decimal number of units; the result is at most a day.
func duration(s string, unit time.Duration) (time.Duration, bool) {
	n, ok := ascii.ParseDecimal([]byte(s))
	if !ok || n == 0 {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(24*time.Hour))), true
}

// readQueueMode reads the header x-colonnade-queue.
func (c *call) readQueueMode() (queueMode, *openai.Error) {
	switch q := queueMode(c.header(queueHeader)); q {
	case queueDefault, queueNever, queueWait:
		return q, nil
	default:
		return "", openai.InvalidRequest("", "the header %s is %.40q: it must be never or wait",
			hop.HeaderQueue, string(q))
	}
}

// readForcedColo returns the only colo that the client wants to be tried; empty = as the model's routing says.
func (c *call) readForcedColo(t *fleet.Table) (string, *openai.Error) {
	forced := c.header(forceColoHeader)
	if forced == "" {
		return "", nil
	}
	if !c.caller.Account.Admin {
		return "", openai.InvalidRequest("", "the header %s is for admin accounts only", hop.HeaderForceColo)
	}
	if _, ok := t.Colo(forced); !ok {
		return "", openai.InvalidRequest("", "the header %s is %.40q: it must be the name of a colo", hop.HeaderForceColo, forced)
	}
	return forced, nil
}

// readPriority returns the account's priority, or the lower one that the client asks for.
func (c *call) readPriority() (string, *openai.Error) {
	own := c.caller.Account.Priority
	asked := c.header(priorityHeader)
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
