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

const (
	// maxMessage bounds one message of a WebSocket, either way.
	maxMessage = 16 << 20
	// engineCloseTimeout is how long the engine may take to close: until then, its slot is taken to be busy.
	engineCloseTimeout = 250 * time.Millisecond
)

// Session is a WebSocket between a client, whose handshake is still to be answered, and an engine that has answered
// ours. Messages are relayed as they come, in pieces: none is ever held whole.
type Session struct {
	Context   context.Context     // ends with [ErrClientGone], or for another cause when we want to end
	Response  *transport.Response // the engine's, switched
	Buffers   *Buffers
	Handshake *transport.Handshake // the client's
	Protocol  string               // the subprotocol that is answered; empty = none
	Fields    []transport.Field    // of the answer to the client
	Limits    SessionLimits
	// Ended is called once: after the engine's connection has ended, and before the client is told.
	OnClose func(SessionOutcome)
}

// SessionLimits bound a session. The zero value is of use.
type SessionLimits struct {
	MaxDuration  time.Duration // of the session; 0 = none
	PingInterval time.Duration // how often both ends are pinged; who is silent for two of them has gone; 0 = 15 s
	WriteStall   time.Duration // longest time in which nothing can be written; 0 = 30 s
	MaxMessage   int64         // bytes; 0 = 16 MiB
}

// SessionOutcome is how a session ended.
type SessionOutcome struct {
	Kind        relay.OutcomeKind
	Reason      string // of an end that was no farewell
	EngineFault bool   // it was the engine's fault

	MessagesIn, MessagesOut int64 // from the client, to it
	BytesIn, BytesOut       int64 // of messages

	Usage            openai.Usage // the sum of what the engine's responses told; see [openai.Conversation]
	HasUsage         bool         // any did
	UnreportedDeltas int          // pieces of text of those that did not
}

// session is a Session that runs.
type session struct {
	*Session
	duplex
	client, engine *wsEnd
	in, out        counters
	conversation   openai.Conversation // for the pump from the engine, until it has ended
	pingers        []*pinger
}

// Run relays messages until the session's end. When it returns, the engine's connection is closed; the client's is left
// to the caller.
func (s *Session) Run(conn *netconn.Conn) {
	engine, ok := s.Response.TakeConn()
	if !ok {
		s.Response.Close()
		end := cancelledOutcome(context.Cause(s.Context))
		s.OnClose(SessionOutcome{Kind: end.Kind})
		return
	}
	defer engine.Close() // also after a panic, before the permit goes
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

// awaitCopiers waits for whatever still runs, which is more than the pings only after a panic.
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

// begin answers the client, and starts to relay.
func (s *Session) begin(conn *netconn.Conn, engine *netconn.Conn) (*session, error) {
	stall, silence := cmp.Or(s.Limits.WriteStall, netconn.WriteStall), 2*cmp.Or(s.Limits.PingInterval, pingInterval)
	engine.Deadline, engine.IdleTimeout, conn.IdleTimeout = time.Time{}, silence, silence
	frames := &s.Buffers.frames
	engineWire := &frameConn{Conn: engine, stall: stall}
	clientWire := &frameConn{Conn: conn, stall: stall}
	toEngine, err := dialEngine(engineWire, frames)
	if err != nil {
		return nil, err
	}
	toClient, err := s.acceptClient(clientWire, frames)
	if err != nil {
		return nil, err
	}
	limit := s.Limits.MaxMessage
	if limit == 0 {
		limit = maxMessage
	}
	r := &session{Session: s}
	r.client = newWSEnd(clientSide, toClient, clientWire, limit)
	r.engine = newWSEnd(serverSide, toEngine, engineWire, limit)
	pieces := &s.Buffers.pieces
	up := messageRelay{from: r.client, to: r.engine, counters: &r.in, limiter: &rateLimiter{}, pieces: pieces}
	down := messageRelay{from: r.engine, to: r.client, counters: &r.out, conversation: &r.conversation, pieces: pieces}
	r.up, r.down = startCopier(up.run), startCopier(down.run)
	return r, nil
}

// closeEngine tells the engine how the session ends, and waits until it has closed, for a moment. Nothing is left
// that reads from the engine or writes to it.
func (r *session) closeEngine(p closePlan) {
	until := time.Now().Add(engineCloseTimeout)
	c := r.engine.conn.Conn
	r.engine.close(p.engineCode, p.engineText, engineCloseTimeout/2)
	_ = c.CloseWrite()
	r.down.waitDone(time.Until(until))
	c.Cancel()
	if !r.down.waitDone(drainTimeout) {
		// It is stuck in a write to a client that takes nothing: such a client is not told either.
		r.client.conn.Cancel()
		<-r.down.done
	}
	if !c.AwaitClose(time.Until(until)) {
		c.Abort()
	}
}

// closeClient tells the client how the session ended, and gives it a moment to close.
func (r *session) closeClient(p closePlan) {
	until := time.Now().Add(closeTimeout)
	c := r.client.conn.Conn
	r.client.close(p.clientCode, p.clientText, closeTimeout)
	_ = c.CloseWrite()
	r.up.waitDone(time.Until(until))
	c.Cancel()
	<-r.up.done
	// What still arrives must be taken: a close over unread bytes resets the connection, and with it our last word.
	_ = c.AwaitClose(time.Until(until))
}

func (r *session) outcome(e SessionOutcome) SessionOutcome {
	e.MessagesIn, e.BytesIn = r.in.messages.Load(), r.in.bytes.Load()
	e.MessagesOut, e.BytesOut = r.out.messages.Load(), r.out.bytes.Load()
	e.Usage, e.HasUsage = r.conversation.Usage()
	e.UnreportedDeltas = r.conversation.Deltas()
	return e
}
