// Package entry is the life of a request at the edge: [Entry.infer] is that life, to be read from top to bottom.
//
// An entry reads a client's request, finds out who asks for which model, and makes a plan from one immutable fleet
// table. It forwards to the home of the model's pool in each colo of the plan until one serves the request; [tries]
// holds the rules of going on. The answer is relayed as it comes. Nothing that a client sends is taken for a word of
// the fleet's own: what goes on is built anew.
//
// A client that asks for queue events has its answer begun at once: what is left of the request's life then runs while
// that is written ([call.seek]), by the same loop of tries.
//
// A WebSocket is a request with a handshake for a body. Once a colo has taken the handshake, the entry carries bytes
// and sees no frames.
package entry
