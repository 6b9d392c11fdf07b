package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"colonnade/forwarding/netconn"
)

// ErrClientGone is the cause of a context whose client has closed its connection, or half of it.
var ErrClientGone = errors.New("client has gone")

// Watch is one request's watch over its client's connection. Its zero value watches nothing.
type Watch struct {
	watcher *Watcher
	id      uint64
	raw     syscall.RawConn
}

// Stop ends the watch; it must be called before the connection can serve another request. It may be called twice.
func (w *Watch) Stop() {
	if w.watcher != nil {
		w.watcher.stop(w.id, w.raw)
		w.watcher = nil
	}
}

// watched is what the watcher does when a client goes.
type watched = context.CancelCauseFunc

// securedOf returns the TLS of a client's connection, or nil.
func securedOf(c net.Conn) *netconn.TLSConn {
	if client, ok := c.(*serverConn); ok {
		return client.secure
	}
	return nil
}

// rawConn returns the socket below c, which may be wrapped by TLS.
func rawConn(c net.Conn) (syscall.RawConn, error) {
	for {
		under, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = under.NetConn()
	}
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
