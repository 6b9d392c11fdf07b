package realtime

import (
	"cmp"
	"context"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

const (
	// maxMessage bounds one message of a WebSocket, either way.
	maxMessage = 16 << 20
	// engineGoodbye is how long the engine may take to close: until then, its slot is taken to be busy.
	engineGoodbye = 250 * time.Millisecond
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
	client, engine *peer
	in, out        tally
	said           openai.Conversation // for the pump from the engine, until it has ended
	pings          []*pings
}

// Run relays messages until the session's end. When it returns, the engine's connection is closed; the client's is left
// to the caller.
func (s *Session) Run(conn *netconn.Conn) {
	engine, ok := s.Response.TakeConn()
	if !ok {
		s.Response.Close()
		end := ofCause(context.Cause(s.Context))
		s.OnClose(SessionOutcome{Kind: end.Kind})
		return
	}
	defer engine.Close() // also after a panic, before the permit goes
	r, err := s.begin(conn, engine)
	if err != nil {
		_ = engine.AwaitClose(s.Response.Linger())
		engine.Close()
		s.OnClose(SessionOutcome{Kind: relay.OutcomeClientGone, Reason: "handshake"})
		return
	}
	every := cmp.Or(s.Limits.PingInterval, pingEvery)
	r.pings = []*pings{startPings(r.client, every), startPings(r.engine, every)}
	defer r.endPumps(conn, engine)
	p := part(r.first(s.Context, s.Limits.MaxDuration))
	r.partFromEngine(p)
	engine.Close()
	s.OnClose(r.sum(p.SessionOutcome))
	r.partFromClient(p)
}

// endPumps waits for whatever still runs, which is more than the pings only after a panic.
func (r *session) endPumps(client *netconn.Conn, engine *netconn.Conn) {
	if !r.up.ended(0) || !r.down.ended(0) {
		engine.Cancel()
		client.Cancel()
	}
	<-r.up.done
	<-r.down.done
	for _, p := range r.pings {
		p.end()
	}
	for _, p := range r.pings {
		if p.panicked != nil {
			panic(p.panicked)
		}
	}
}

// begin answers the client, and starts to relay.
func (s *Session) begin(conn *netconn.Conn, engine *netconn.Conn) (*session, error) {
	stall, silence := cmp.Or(s.Limits.WriteStall, netconn.WriteStall), 2*cmp.Or(s.Limits.PingInterval, pingEvery)
	engine.Deadline, engine.IdleTimeout, conn.IdleTimeout = time.Time{}, silence, silence
	frames := &s.Buffers.frames
	engineWire := &wire{Conn: engine, stall: stall}
	clientWire := &wire{Conn: conn, stall: stall}
	toEngine, err := dialPeer(engineWire, frames)
	if err != nil {
		return nil, err
	}
	toClient, err := s.accept(clientWire, frames)
	if err != nil {
		return nil, err
	}
	limit := s.Limits.MaxMessage
	if limit == 0 {
		limit = maxMessage
	}
	r := &session{Session: s}
	r.client = newPeer(clientSide, toClient, clientWire, limit)
	r.engine = newPeer(serverSide, toEngine, engineWire, limit)
	pieces := &s.Buffers.pieces
	up := carrier{from: r.client, to: r.engine, tally: &r.in, pace: &pace{}, pieces: pieces}
	down := carrier{from: r.engine, to: r.client, tally: &r.out, said: &r.said, pieces: pieces}
	r.up, r.down = startPump(up.run), startPump(down.run)
	return r, nil
}

// partFromEngine tells the engine how the session ends, and waits until it has closed, for a moment. Nothing is left
// that reads from the engine or writes to it.
func (r *session) partFromEngine(p parting) {
	until := time.Now().Add(engineGoodbye)
	c := r.engine.wire.Conn
	r.engine.close(p.engineCode, p.engineText, engineGoodbye/2)
	_ = c.CloseWrite()
	r.down.ended(time.Until(until))
	c.Cancel()
	if !r.down.ended(lastWords) {
		// It is stuck in a write to a client that takes nothing: such a client is not told either.
		r.client.wire.Cancel()
		<-r.down.done
	}
	if !c.AwaitClose(time.Until(until)) {
		c.Abort()
	}
}

// partFromClient tells the client how the session ended, and gives it a moment to close.
func (r *session) partFromClient(p parting) {
	until := time.Now().Add(farewell)
	c := r.client.wire.Conn
	r.client.close(p.clientCode, p.clientText, farewell)
	_ = c.CloseWrite()
	r.up.ended(time.Until(until))
	c.Cancel()
	<-r.up.done
	// What still arrives must be taken: a close over unread bytes resets the connection, and with it our last word.
	_ = c.AwaitClose(time.Until(until))
}

func (r *session) sum(e SessionOutcome) SessionOutcome {
	e.MessagesIn, e.BytesIn = r.in.messages.Load(), r.in.bytes.Load()
	e.MessagesOut, e.BytesOut = r.out.messages.Load(), r.out.bytes.Load()
	e.Usage, e.HasUsage = r.said.Usage()
	e.UnreportedDeltas = r.said.Deltas()
	return e
}
