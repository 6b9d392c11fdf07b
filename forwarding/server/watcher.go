package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"colonnade/forwarding/netconn"
)

// ErrClientGone is the cause of a context whose client has closed its connection, or the write half of it.
var ErrClientGone = errors.New("client has gone")

// maxUnread is how many bytes a client may send before it has the response to its request. A client that sends more counts as gone: the
// close of one that leaves would not arrive behind them.
const maxUnread = 64 << 10

// clientWatch is one request's watch over the connection of its client. The zero value watches nothing.
type clientWatch struct {
	watcher *clientWatcher
	id      uint64
	raw     syscall.RawConn
}

// ignoreInput makes the watch find the close of the client only, for a connection whose input is read.
func (w *clientWatch) ignoreInput() {
	if w.watcher != nil {
		w.watcher.ignoreInput(w.id)
	}
}

// stop ends the watch. It must be called before the next request of the connection, and may be called twice.
func (w *clientWatch) stop() {
	if w.watcher != nil {
		w.watcher.stop(w.id, w.raw)
		w.watcher = nil
	}
}

// onGone is called when a watched client leaves.
type onGone = context.CancelCauseFunc

// tlsOf returns the TLS of a client's connection, or nil.
func tlsOf(c net.Conn) *netconn.TLSConn {
	if client, ok := c.(*serverConn); ok {
		return client.tlsConn
	}
	return nil
}

// rawConn returns the socket of c.
func rawConn(c net.Conn) (syscall.RawConn, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("cannot watch client: a %T has no socket", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cannot watch client: %w", err)
	}
	return raw, nil
}
