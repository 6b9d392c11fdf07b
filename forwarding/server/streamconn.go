package server

import (
	"net"

	"colonnade/forwarding/link"
)

// newStreamConn returns a stream of a link as a connection for fasthttp. It differs from a socket in this:
//   - It carries one request, so the response is its last, and it is never idle: see markLast and keepAlive.
//   - The link tells when its client resets it or is lost, so its socket is not watched: see [Request.WatchClient].
//   - Its end does not overtake its response, so Close does not linger. The end of a response that is not complete is a reset: see
//     [TruncateOnClose].
//   - It is in no list of the listener, which has the connection of its link, and the certificate is that connection's.
func newStreamConn(s linkedStream) *serverConn {
	c := new(serverConn)
	c.carry(s)
	return c
}

// carry makes c the connection of a stream: a new one, or one that has carried whole exchanges with binary heads, of which nothing is left.
func (c *serverConn) carry(s linkedStream) {
	c.lower, c.linked, c.listener, c.peer = s.Stream, s.Stream, s.over.listener, s.over.peer
}

// linkedStream is a stream of a link over a connection.
type linkedStream struct {
	*link.Stream
	over *serverConn
}

// isStream reports whether a client's connection is a stream of a link.
func isStream(c net.Conn) bool { return c.(*serverConn).linked != nil }
