package realtime

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/server"
	"colonnade/forwarding/transport"
)

// relayPiece is what one read of a WebSocket brings at most.
const relayPiece = 8 << 10

// Tunnel carries the bytes of a WebSocket between a client and a server that terminates it. It sees no frames: whether
// a session ended well only the server knows.
type Tunnel struct {
	Context     context.Context     // ends with [ErrClientGone], or for another cause when we want to end
	Response    *transport.Response // the server's, switched
	Buffers     *Buffers
	WriteStall  time.Duration // longest time in which nothing can be written; 0 = 30 s
	IdleTimeout time.Duration // longest time in which the server says nothing; 0 = 45 s, three of its pings
}

// TunnelOutcome is how a tunnel ended.
type TunnelOutcome struct {
	relay.Outcome
	BytesIn, BytesOut int64 // from the client, to it
}

// Run carries bytes until both sides have closed, or one has and the other does not follow, or the context ends. When
// it returns, the server's connection is closed; the client's is left to the caller.
//
// Each side is told of the other's end by the end of its own stream, and may have its last word. So a server that loses
// its client can still write a close frame, which reaches a client whose tunnel we had to end.
func (t *Tunnel) Run(client *netconn.Conn) TunnelOutcome {
	server, ok := t.Response.TakeConn()
	if !ok {
		t.Response.Close()
		return TunnelOutcome{Outcome: ofCause(context.Cause(t.Context))}
	}
	defer server.Close()
	server.Deadline, server.IdleTimeout = time.Time{}, cmp.Or(t.IdleTimeout, 3*pingEvery)
	pieces := &t.Buffers.pieces
	up := &flow{from: client, to: server, stall: cmp.Or(t.WriteStall, netconn.WriteStall), pieces: pieces}
	down := &flow{from: server, to: client, stall: up.stall, pieces: pieces}
	d := duplex{
		up:   startPump(func() failure { return up.carry(clientSide, serverSide) }),
		down: startPump(func() failure { return down.carry(serverSide, clientSide) }),
	}
	why, cause := d.first(t.Context, 0)
	said := down.bytes.Load()
	d.windDown(server, client, why, cause)
	server.Cancel()
	client.Cancel()
	<-d.up.done
	<-d.down.done
	closed := d.down.failure.side == serverSide && errors.Is(d.down.failure.err, io.EOF)
	if !closed {
		server.Abort() // it must notice, whatever it is busy with
	}
	end := TunnelOutcome{BytesIn: up.bytes.Load(), BytesOut: down.bytes.Load()}
	end.Outcome = tunnelEnd(why, cause, closed && end.BytesOut == said)
	return end
}

// windDown tells each side that the other has ended, and lets it have its last word.
func (d *duplex) windDown(srv, client *netconn.Conn, why failure, cause error) {
	switch {
	case errors.Is(cause, server.ErrClientGone), cause == nil && why.side == clientSide && !errors.Is(why.err, io.EOF):
		// Nobody listens any more.
	case cause == nil && why.side == clientSide:
		_ = srv.CloseWrite()
		d.down.ended(3 * lastWords)
	case cause != nil:
		_ = srv.CloseWrite()
		d.down.ended(2 * farewell) // the server speaks to its engine first
	default:
		d.down.ended(farewell) // it may still say why it takes nothing any more
		_ = client.CloseWrite()
		d.up.ended(farewell)
	}
}

// tunnelEnd judges an end from outside. Of a client that closes first, agreed tells whether the server had nothing more
// to say: it answers a close frame before, and a loss after.
func tunnelEnd(why failure, cause error, agreed bool) relay.Outcome {
	switch {
	case cause != nil:
		return ofCause(cause)
	case why.side == clientSide && !agreed:
		return relay.Outcome{Kind: relay.OutcomeClientGone, Err: why.err}
	case why.side == clientSide, errors.Is(why.err, io.EOF):
		return relay.Outcome{Kind: relay.OutcomeCompleted}
	case isNetTimeout(why.err):
		return relay.Outcome{Kind: relay.OutcomeTimeout, Err: why.err}
	}
	return relay.Outcome{Kind: relay.OutcomeEngineError, Err: why.err}
}

// ofCause is the end of what a context has ended.
func ofCause(cause error) relay.Outcome {
	if errors.Is(cause, server.ErrClientGone) {
		return relay.Outcome{Kind: relay.OutcomeClientGone, Err: cause}
	}
	return relay.Outcome{Kind: relay.OutcomeDrained, Err: cause}
}

// idlePiece is what a read of a tunnel brings in which little is said.
const idlePiece = 512

// flow is one direction of a tunnel.
type flow struct {
	from   io.Reader
	to     *netconn.Conn
	stall  time.Duration
	pieces *sync.Pool // see [Buffers]
	bytes  atomic.Int64
}

// carry keeps a whole piece only while it is filled: most tunnels are silent most of the time.
func (f *flow) carry(from, to side) failure {
	little := make([]byte, idlePiece)
	var whole *[]byte
	defer func() {
		if whole != nil {
			f.pieces.Put(whole)
		}
	}()
	for {
		piece := little
		if whole != nil {
			piece = *whole
		}
		n, err := f.from.Read(piece)
		if n > 0 {
			if _, err := f.to.WriteWithin(piece[:n], f.stall, time.Time{}); err != nil {
				return failure{side: to, writing: true, err: err}
			}
			f.bytes.Add(int64(n))
		}
		if err != nil {
			return failure{side: from, err: err}
		}
		switch {
		case whole == nil && n == idlePiece:
			whole = borrow(f.pieces)
		case whole != nil && n < idlePiece:
			f.pieces.Put(whole)
			whole = nil
		}
	}
}
