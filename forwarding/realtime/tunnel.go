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

// pieceSize is the size limit of one read of a WebSocket, in bytes.
const pieceSize = 8 << 10

// Tunnel copies the bytes of a WebSocket between a client and the server that terminates it. It does not parse frames, and knows of the
// server's end only whether a close frame came last.
type Tunnel struct {
	Context     context.Context     // ends with [server.ErrClientGone], or with another cause when this node cancels
	Response    *transport.Response // of the server, upgraded
	Buffers     *Buffers
	WriteStall  time.Duration // longest time for a write of 64 KiB; 0 = 30 s
	IdleTimeout time.Duration // longest silence of the server; 0 = 45 s, three of its pings
}

// TunnelOutcome is how a tunnel has ended.
type TunnelOutcome struct {
	relay.Outcome
	BytesIn, BytesOut int64 // from the client, to it
}

// Run copies bytes until both sides have closed, or one has and the other does not follow in time, or the context ends. When it
// returns, the server's connection is closed; the caller must close the client's.
//
// The end of one side closes the write half of the other, which may still send. So a server whose client has gone, or whose tunnel was
// cancelled, can send a close frame that reaches the client.
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
	var tail closeTail
	down := &byteCopier{from: server, to: client, stall: up.stall, pieces: pieces, tail: &tail}
	d := duplex{
		up:   startCopier(func() failure { return up.run(clientSide, serverSide) }),
		down: startCopier(func() failure { return down.run(serverSide, clientSide) }),
	}
	failed, cause := d.first(t.Context, 0)
	before := down.bytes.Load()
	d.windDown(server, client, failed, cause)
	server.Cancel()
	client.Cancel()
	<-d.up.done
	<-d.down.done
	closed := d.down.failure.side == serverSide && errors.Is(d.down.failure.err, io.EOF)
	if !closed {
		server.Abort() // so that it notices even while it does not read
	}
	end := TunnelOutcome{BytesIn: up.bytes.Load(), BytesOut: down.bytes.Load()}
	end.Outcome = tunnelOutcome(failed, cause, closed && end.BytesOut == before)
	if end.Kind == relay.OutcomeCompleted && !tail.closed() {
		end.Outcome = relay.Outcome{Kind: relay.OutcomeEngineError, Err: errNoCloseFrame}
	}
	return end
}

var errNoCloseFrame = errors.New("server closed the connection without a close frame")

// windDown closes each side's write half after the other side's end, and copies for a while what it still sends.
func (d *duplex) windDown(srv, client *netconn.Conn, failed failure, cause error) {
	switch {
	case errors.Is(cause, server.ErrClientGone), cause == nil && failed.side == clientSide && !errors.Is(failed.err, io.EOF):
		// Neither side can receive anything.
	case cause == nil && failed.side == clientSide:
		_ = srv.CloseWrite()
		d.down.waitDone(3 * drainTimeout)
	case cause != nil:
		_ = srv.CloseWrite()
		d.down.waitDone(2 * closeTimeout) // the server closes its engine first
	default:
		d.down.waitDone(closeTimeout) // the server may send why it does not read
		_ = client.CloseWrite()
		d.up.waitDone(closeTimeout)
	}
}

// tunnelOutcome infers the outcome without parsing frames. If the client has closed first, agreed is whether the server has sent nothing
// after that: it answers a close frame before the client closes, and a lost client after.
func tunnelOutcome(failed failure, cause error, agreed bool) relay.Outcome {
	switch {
	case cause != nil:
		return cancelledOutcome(cause)
	case failed.side == clientSide && !agreed:
		return relay.Outcome{Kind: relay.OutcomeClientGone, Err: failed.err}
	case failed.side == clientSide, errors.Is(failed.err, io.EOF):
		return relay.Outcome{Kind: relay.OutcomeCompleted}
	case netconn.IsTimeout(failed.err):
		return relay.Outcome{Kind: relay.OutcomeTimeout, Err: failed.err}
	}
	return relay.Outcome{Kind: relay.OutcomeEngineError, Err: failed.err}
}

// cancelledOutcome returns the outcome of a connection that its context has ended.
func cancelledOutcome(cause error) relay.Outcome {
	if errors.Is(cause, server.ErrClientGone) {
		return relay.Outcome{Kind: relay.OutcomeClientGone, Err: cause}
	}
	return relay.Outcome{Kind: relay.OutcomeDrained, Err: cause}
}

// idlePieceSize is the size of reads while little data arrives, in bytes.
const idlePieceSize = 512

// byteCopier copies one direction of a tunnel.
type byteCopier struct {
	from   io.Reader
	to     *netconn.Conn
	stall  time.Duration
	pieces *sync.Pool // see [Buffers]
	tail   *closeTail // nil = not kept
	bytes  atomic.Int64
}

// run copies until a side fails. It holds a whole piece only while reads fill the small one, since most tunnels are silent most of
// the time.
func (f *byteCopier) run(from, to side) failure {
	small := make([]byte, idlePieceSize)
	var whole *[]byte
	defer func() {
		if whole != nil {
			f.pieces.Put(whole)
		}
	}()
	for {
		piece := small
		if whole != nil {
			piece = *whole
		}
		n, err := f.from.Read(piece)
		if n > 0 {
			if _, err := f.to.WriteWithin(piece[:n], f.stall, time.Time{}); err != nil {
				return failure{side: to, writing: true, err: err}
			}
			f.bytes.Add(int64(n))
			if f.tail != nil {
				f.tail.add(piece[:n])
			}
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
