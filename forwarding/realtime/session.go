package realtime

import (
	"cmp"
	"context"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// Subprotocol is the WebSocket subprotocol that OpenAI's clients offer.
const Subprotocol = "realtime"

const (
	// maxMessage is the default size limit of a message, in bytes.
	maxMessage = 16 << 20
	// engineCloseTimeout is how long the engine may take to close. Its slot counts as busy until then.
	engineCloseTimeout = 250 * time.Millisecond
)

// Session relays messages between a client, whose handshake it accepts, and an engine, which has accepted this node's. Messages are
// relayed in pieces as they arrive, and never held whole.
type Session struct {
	Context   context.Context     // ends with [server.ErrClientGone], or with another cause when this node cancels
	Response  *transport.Response // of the engine, upgraded
	Buffers   *Buffers
	Handshake *transport.Handshake // the client's
	Protocol  string               // the subprotocol to accept; empty = none
	Fields    []transport.Field    // further headers of the response to the client
	Limits    SessionLimits
	// Models are the names of models that the client's messages may have; nil = they are not looked at.
	Models []string
	// OnClose is called once, after the engine's connection has ended and before the client's is closed.
	OnClose func(SessionOutcome)
}

// SessionLimits are the limits of a session. The zero value means the defaults.
type SessionLimits struct {
	MaxDuration  time.Duration // of the session; 0 = no limit
	PingInterval time.Duration // time between two pings to each end, which may be silent for two of them; 0 = 15 s
	WriteStall   time.Duration // longest time for a write of 64 KiB; 0 = 30 s
	MaxMessage   int64         // in bytes; 0 = 16 MiB
}

// SessionOutcome is how a session has ended.
type SessionOutcome struct {
	Kind        relay.OutcomeKind
	Reason      string // machine-readable; empty after a normal close
	EngineFault bool   // the engine has failed

	MessagesIn, MessagesOut int64 // from the client, to it
	BytesIn, BytesOut       int64 // of messages

	Usage            openai.Usage // sum over the engine's responses; see [openai.Conversation]
	HasUsage         bool         // a response has reported usage
	UnreportedDeltas int          // text deltas of responses that have not reported usage
}

// session is a running Session.
type session struct {
	*Session
	duplex
	client, engine *wsEnd
	in, out        counters
	conversation   openai.Conversation // for the copier from the engine, and after that has stopped for the owner
	pingers        []*pinger
}

// Run relays messages until the end of the session. When it returns, the engine's connection is closed; the caller must close the
// client's.
func (s *Session) Run(conn *netconn.Conn) {
	engine, ok := s.Response.TakeConn()
	if !ok {
		s.Response.Close()
		end := cancelledOutcome(context.Cause(s.Context))
		s.OnClose(SessionOutcome{Kind: end.Kind})
		return
	}
	defer engine.Close() // after a panic, too, before the permit is released
	r, err := s.begin(conn, engine)
	if err != nil {
		_ = engine.AwaitClose(s.Response.Linger())
		engine.Close()
		s.OnClose(SessionOutcome{Kind: relay.OutcomeClientGone, Reason: reasons.Handshake})
		return
	}
	every := cmp.Or(s.Limits.PingInterval, pingInterval)
	r.pingers = []*pinger{startPinger(r.client, every), startPinger(r.engine, every)}
	defer r.awaitCopiers(conn, engine)
	p := planClose(r.first(s.Context, s.Limits.MaxDuration))
	r.closeEngine(p)
	engine.Close()
	s.OnClose(r.outcome(p.SessionOutcome))
	r.closeClient(p)
}

// awaitCopiers waits for the copiers, which still run only after a panic, and for the pingers.
func (r *session) awaitCopiers(client *netconn.Conn, engine *netconn.Conn) {
	if !r.up.waitDone(0) || !r.down.waitDone(0) {
		engine.Cancel()
		client.Cancel()
	}
	<-r.up.done
	<-r.down.done
	for _, p := range r.pingers {
		p.stop()
	}
	for _, p := range r.pingers {
		if p.panicked != nil {
			panic(p.panicked)
		}
	}
}

// begin accepts the client's handshake, and starts the copiers.
func (s *Session) begin(conn *netconn.Conn, engine *netconn.Conn) (*session, error) {
	stall, silence := cmp.Or(s.Limits.WriteStall, netconn.WriteStall), 2*cmp.Or(s.Limits.PingInterval, pingInterval)
	engine.Deadline, engine.IdleTimeout, conn.IdleTimeout = time.Time{}, silence, silence
	frames := &s.Buffers.frames
	engineConn := &frameConn{Conn: engine, stall: stall}
	clientConn := &frameConn{Conn: conn, stall: stall}
	toEngine, err := dialEngine(engineConn, frames)
	if err != nil {
		return nil, err
	}
	toClient, err := s.acceptClient(clientConn, frames)
	if err != nil {
		return nil, err
	}
	limit := s.Limits.MaxMessage
	if limit == 0 {
		limit = maxMessage
	}
	r := &session{Session: s}
	r.client = newWSEnd(clientSide, toClient, clientConn, limit)
	r.engine = newWSEnd(serverSide, toEngine, engineConn, limit)
	pieces := &s.Buffers.pieces
	up := messageRelay{from: r.client, to: r.engine, counters: &r.in, limiter: &rateLimiter{}, pieces: pieces}
	if s.Models != nil {
		up.events = &openai.ClientEvents{Models: s.Models}
	}
	down := messageRelay{from: r.engine, to: r.client, counters: &r.out, conversation: &r.conversation, pieces: pieces}
	r.up, r.down = startCopier(up.run), startCopier(down.run)
	return r, nil
}

// closeEngine sends the engine its close frame, and waits for at most engineCloseTimeout until it has closed. When it returns, no
// goroutine reads from the engine or writes to it.
func (r *session) closeEngine(p closePlan) {
	until := time.Now().Add(engineCloseTimeout)
	c := r.engine.conn.Conn
	r.engine.close(p.engineCode, p.engineText, engineCloseTimeout/2)
	_ = c.CloseWrite()
	r.down.waitDone(time.Until(until))
	c.Cancel()
	if !r.down.waitDone(drainTimeout) {
		// It is blocked in a write to a client that does not read, which gets no close frame.
		r.client.conn.Cancel()
		<-r.down.done
	}
	if !c.AwaitClose(time.Until(until)) {
		c.Abort()
	}
}

// closeClient sends the client its close frame, and waits for at most closeTimeout until it has closed.
func (r *session) closeClient(p closePlan) {
	until := time.Now().Add(closeTimeout)
	c := r.client.conn.Conn
	r.client.close(p.clientCode, p.clientText, closeTimeout)
	_ = c.CloseWrite()
	r.up.waitDone(time.Until(until))
	c.Cancel()
	<-r.up.done
	// Input is discarded, since a close with unread input resets the connection and may discard the close frame.
	_ = c.AwaitClose(time.Until(until))
}

func (r *session) outcome(e SessionOutcome) SessionOutcome {
	e.MessagesIn, e.BytesIn = r.in.messages.Load(), r.in.bytes.Load()
	e.MessagesOut, e.BytesOut = r.out.messages.Load(), r.out.bytes.Load()
	e.Usage, e.HasUsage = r.conversation.Usage()
	e.UnreportedDeltas = r.conversation.Deltas()
	return e
}
