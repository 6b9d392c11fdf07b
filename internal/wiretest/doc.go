// Package wiretest is a client that speaks byte by byte: HTTP/1.1 and WebSocket frames as they stand on the wire, which
// net/http and other libraries hide. It knows nothing of the gateway, so that the tests of any package can use it.
package wiretest
