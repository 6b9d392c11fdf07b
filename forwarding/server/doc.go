// Package server makes fasthttp strict: limits on sizes, times and connections, TLS, OpenAI-shaped errors, and a drain that fails
// no request.
//
//	listener     accepts connections within the limits of connLimiter, for which it closes idle ones, and closes without a reset
//	serverConn   a client's connection: TLS handshake, end between two requests while the server drains, httpguard.Framing
//	Server       fasthttp's settings and hooks; the steps of a drain
//	Exchange     a request of another node: with binary heads over a link, without fasthttp; or in text
//	Inflight     the requests in flight: cancellation, clients that leave, bodies, hijacked connections
//
// A head must arrive within ten seconds, and a body must make progress ([Request.ReadBody]): 8 KiB, or its end, in every ten
// seconds, and more if it holds much memory. The memory of a body grows with what has arrived. All unfinished bodies share one limit;
// an account, or the address of a client without a key, has half of it, and loses memory to one that holds less (bodyMemory). No body
// is read before the handler has seen the head ([Config]). A response before the end of the request's body is its connection's last;
// the connection is then closed in two steps, so that the client gets the response.
//
// A request's context ends as soon as its client leaves, even while the request waits in a queue or its engine is silent
// ([ErrClientGone]). A request is in flight ([Inflight]) until the end of its response, which for a stream comes after the handler
// has returned.
package server
