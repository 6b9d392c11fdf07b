// Package colo is the life of a request in a colo: [Server.serve] is that life, to be read from top to bottom.
//
// A request comes from another node of the fleet, with a signed hop token; nobody else is believed. It gets a permit
// for one slot of one engine, or waits for it, or is refused with a verdict. With the permit it goes to that engine,
// and the answer is relayed as it comes. The permit lives exactly as long as the exchange with the engine: it is bound
// to the answer's end, not to the handler's, since a stream is written after the handler has returned.
//
// A WebSocket is a request with a handshake for a body. Once the engine has taken it, the permit is bound to its life.
package colo
