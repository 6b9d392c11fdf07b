package server

import (
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

// watchedConn is a client's connection for its watcher, which guards all fields but those of socket. At most one request is watched at a
// time.
type watchedConn struct {
	socket
	watchState
}

// socket is what is watched.
type socket struct {
	watcher *clientWatcher
	tcp     *net.TCPConn
	tls     *netconn.TLSConn // nil without TLS
}

// rawConn returns the descriptor.
func (s *socket) rawConn() (syscall.RawConn, error) {
	raw, err := s.tcp.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cannot watch client: %w", err)
	}
	return raw, nil
}
