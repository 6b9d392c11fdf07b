// Package forwarding carries one request one hop: from an entry to a colo server, and from there to an engine.
//
// What moves is a [Request], rebuilt field by field and never copied from what a client sent, and an [Answer], which is
// an engine's response up to its first byte and then the rest of it as it comes. [Transport.Do] makes exactly one
// attempt and hides no retry. It ends as soon as its context does: the connection is told to stop by a deadline in the
// past, so a goroutine that waits for a silent engine wakes at once; the connection is then closed in two steps, so
// that the engine has let go of its slot before the caller releases the permit ([Request.Linger]).
//
// [Relay] writes an answer to the client with rolling deadlines on both sides. It holds the rule that a stream that was
// cut short never looks complete: the client gets the API's own error event, and then a connection that is closed
// without the last chunk.
//
// A [Prelude] is an answer that begins before there is one: a stream whose client reads comments on how its request
// waits, while colos are tried as for any other. A colo says so by interim answers (102, [Progress]) to a request that
// asked for them in its hop token; in a silence before the first byte the reading goroutine is woken ([Request.Pulse]),
// so that no other writes to the client. Anybody else's interim answers say nothing, and all are bounded.
//
// A WebSocket begins as any exchange, with a [Handshake] in the request; an answer that is not the one that was asked
// for is malformed, and its connection is closed. From then on a [Tunnel] carries its bytes, or a [Session] its
// messages: in pieces, with pings both ways and limits on silence, standstill, size and fragments. Both see which side
// ended it, and let the other know.
//
// A request's head must be whole within ten seconds, and its body must get on ([Custody.Receive]): every ten seconds
// bring 8 KiB of it, or its end. Its memory grows with what has come; what has not come takes none, whatever was
// announced, and all bodies that are being read have a bound together. Nobody's body is read before the head has told
// who sends it ([ServerConfig]); a request that is answered before its body was read is its connection's last, which
// then ends gently, so that the answer gets through.
//
// [Watcher] tells at once when a client has gone, also while its request is queued or its engine is silent. [Hop] is
// the signed token by which one node of the fleet believes another, [Verdict] and [Load] are what a colo server tells
// back, and [RetryBudget] bounds what a storm of failures may add.
package forwarding
