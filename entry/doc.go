// Package entry is the life of a request at the edge: [call.infer] is that life, to be read from top to bottom.
//
// An entry reads a client's request, finds the account and the model, and makes a plan from one immutable fleet table. It forwards to the
// home of the model's pool in each colo of the plan until one serves the request; [attempts] holds the rules of going on. The answer is
// relayed as it comes. Nothing that a client sends is taken for internal metadata: the forwarded request is built anew, field by field.
//
// The servers of a colo are a [line], by the order of homes.Rank. A server that is not the home names it and its address, and the request goes
// there, also if the table of the entry is too old to have that server; if a server does not answer, the request goes to the next in line,
// with the names of those that have not answered. A server that keeps its connections open and sends nothing is found by
// [liveness.Watcher]: it is asked for a sign of life, and without one its unanswered requests go on.
//
// Each answer of a colo shows how far the colo is: the time that was measured, less the time for which the server had the request. A colo that
// plans go by the distance of, and that has not answered for a while, is pinged; so is one in which requests find no server any more (reach),
// and which stands last in all plans until it answers.
//
// The answer to a client that asks for queue events begins at once. Colos are then tried while it is being written
// ([call.resolveStream]), by the same loop of attempts.
//
// A WebSocket is a request with a handshake instead of a body. Once a colo has taken the handshake, the entry carries bytes and sees no
// frames.
package entry
