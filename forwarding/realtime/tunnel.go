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

// pieceSize is what one read of a WebSocket brings at most.
const pieceSize = 8 << 10

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
		return TunnelOutcome{Outcome: cancelledOutcome(context.Cause(t.Context))}
	}
	defer server.Close()
	server.Deadline, server.IdleTimeout = time.Time{}, cmp.Or(t.IdleTimeout, 3*pingInterval)
	pieces := &t.Buffers.pieces
	up := &byteCopier{from: client, to: server, stall: cmp.Or(t.WriteStall, netconn.WriteStall), pieces: pieces}
	down := &byteCopier{from: server, to: client, stall: up.stall, pieces: pieces}
	d := duplex{
		up:   startCopier(func() failure { return up.run(clientSide, serverSide) }),
		down: startCopier(func() failure { return down.run(serverSide, clientSide) }),
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
	end.Outcome = tunnelOutcome(why, cause, closed && end.BytesOut == said)
	return end
}

// windDown tells each side that the other has ended, and lets it have its last word.
func (d *duplex) windDown(srv, client *netconn.Conn, why failure, cause error) {
	switch {
	case errors.Is(cause, server.ErrClientGone), cause == nil && why.side == clientSide && !errors.Is(why.err, io.EOF):
		// Nobody listens any more.
	case cause == nil && why.side == clientSide:
		_ = srv.CloseWrite()
		d.down.waitDone(3 * drainTimeout)
	case cause != nil:
		_ = srv.CloseWrite()
		d.down.waitDone(2 * closeTimeout) // the server speaks to its engine first
	default:
		d.down.waitDone(closeTimeout) // it may still say why it takes nothing any more
		_ = client.CloseWrite()
		d.up.waitDone(closeTimeout)
	}
}

// tunnelOutcome judges an end from outside. Of a client that closes first, agreed tells whether the server had nothing more
// to say: it answers a close frame before, and a loss after.
func tunnelOutcome(why failure, cause error, agreed bool) relay.Outcome {
	switch {
	case cause != nil:
		return cancelledOutcome(cause)
	case why.side == clientSide && !agreed:
		return relay.Outcome{Kind: relay.OutcomeClientGone, Err: why.err}
	case why.side == clientSide, errors.Is(why.err, io.EOF):
		return relay.Outcome{Kind: relay.OutcomeCompleted}
	case isTimeout(why.err):
		return relay.Outcome{Kind: relay.OutcomeTimeout, Err: why.err}
	}
	return relay.Outcome{Kind: relay.OutcomeEngineError, Err: why.err}
}

// cancelledOutcome is the end of what a context has ended.
func cancelledOutcome(cause error) relay.Outcome {
	if errors.Is(cause, server.ErrClientGone) {
		return relay.Outcome{Kind: relay.OutcomeClientGone, Err: cause}
	}
	return relay.Outcome{Kind: relay.OutcomeDrained, Err: cause}
}

// idlePieceSize is what a read of a tunnel brings in which little is said.
const idlePieceSize = 512

// byteCopier is one direction of a tunnel.
type byteCopier struct {
	from   io.Reader
	to     *netconn.Conn
	stall  time.Duration
	pieces *sync.Pool // see [Buffers]
	bytes  atomic.Int64
}

// run keeps a whole piece only while it is filled: most tunnels are silent most of the time.
func (f *byteCopier) run(from, to side) failure {
	little := make([]byte, idlePieceSize)
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
		case whole == nil && n == idlePieceSize:
			whole = getPiece(f.pieces)
		case whole != nil && n < idlePieceSize:
			f.pieces.Put(whole)
			whole = nil
		}
	}
}
