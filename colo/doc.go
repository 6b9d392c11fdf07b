// Package colo is the life of a request in a colo: [Server.Do] is that life, to be read from top to bottom.
//
// A request comes from another node of the fleet: over the network to the peer listener, which believes only a signed hop token, or as a
// function call of an entry in the same process. It gets a permit for one slot of one engine, waits for it, or is refused with a verdict.
// With the permit it goes to that engine, and the answer is relayed as it comes. The permit lives exactly as long as the exchange with
// the engine: it is bound to the answer's end, through the hooks of [peer.Answer], since a stream is relayed after Do has returned.
//
// A colo may have several servers. Each pool has its home at one of them, which alone grants permits for it. Another server answers with the
// verdict moved, which names the home, unless the home did not answer the entry: then the request waits until this server is the home, or
// hears it again. Servers ask each other about their processes on the peer listener ([hop.PathOwned]); that is no request, and is answered
// whatever else the server does.
//
// A WebSocket is a request with a handshake instead of a body. Once the engine has switched protocols, the permit is bound to the session.
package colo
