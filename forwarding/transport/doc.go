// Package transport is an HTTP/1.1 client that makes one attempt at one server. [Transport.Do] sends a [Request] and returns the
// [Response] once its first byte has arrived. It never sends a whole request twice. When its context ends it returns at once, even
// while an engine is silent, since a deadline in the past wakes the goroutine that waits. Before it returns, it closes the connection
// in two steps, so that the engine has freed its slot before the caller releases the permit ([Request.Linger]).
//
// Idle connections are kept for a few seconds. If a server sends something on one of them while no request waits for an answer,
// that is not taken for one, and no connection to this server is kept for an hour. A connection passes from one account to another
// ([Request.Account]) only after 100 ms of silence, since no check finds an answer that is late enough to arrive during the next
// request.
//
// Over a link to another node, heads are binary where its server reads them: see [hop.ParseRequestHead].
//
// A WebSocket begins as an exchange with a [Handshake] in its request. A response that does not match the handshake is malformed.
//
// A response that two parsers could read differently (both Content-Length and Transfer-Encoding, a body where none may be, an
// endless head) is malformed: the attempt fails, and the connection is closed. Interim responses (1xx) are bounded; those of a node
// of the fleet may carry a [hop.Progress].
package transport
