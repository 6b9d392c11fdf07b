// Package transport makes one attempt at one server. [Transport.Do] sends a [Request], built field by field, and returns a
// [Response] up to its first byte; it hides no retry. It ends as soon as its context does: a deadline in the past wakes a
// goroutine that waits for a silent engine. The connection is then closed in two steps, so that the engine has freed its
// slot before the caller releases the permit ([Request.Linger]).
//
// A WebSocket begins as any exchange, with a [Handshake] in the request. A response that does not answer the handshake is
// malformed, and its connection is closed.
//
// A server that speaks two ways at once (both Content-Length and Transfer-Encoding, a body where none may be, an endless
// head) has answered nothing: its connection is closed and never used again. Interim responses (1xx) are bounded; those of a
// node of ours carry a [hop.Progress].
package transport
