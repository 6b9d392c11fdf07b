package server

import (
	"net"

	"colonnade/forwarding/link"
)

// newStreamConn returns a stream of a link, over the connection of, as a connection for fasthttp. It differs from a socket in this:
//   - It carries one request, so the response is its last, and it is never idle: see markLast and keepAlive.
//   - The link tells when its client resets it or is lost, so its socket is not watched: see [Request.WatchClient].
//   - Its end does not overtake its response, so Close does not linger. The end of a response that is not complete is a reset: see
//     [TruncateOnClose].
//   - It is in no list of the listener, which has the connection of its link, and the certificate is that connection's.
func newStreamConn(of *serverConn, stream *link.Stream) *serverConn {
	return &serverConn{lower: stream, linked: stream, keepAlive: keepAlive{listener: of.listener}, tlsState: tlsState{peer: of.peer}}
}

// isStream reports whether a client's connection is a stream of a link.
func isStream(c net.Conn) bool { return c.(*serverConn).linked != nil }
