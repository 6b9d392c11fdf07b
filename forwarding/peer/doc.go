// Package peer carries one request over one hop, with or without a network in between: a [Request] to a colo server, and its [Answer],
// which is a response to relay or a verdict.
//
// [Func] is the signature that all ways of carrying it share: a colo server in the same process (colo.Server.Do), and the path of a
// [Client] to one elsewhere, whose peer listener is an adapter around the same function. So an entry, or a colo that sends a request
// on, does not depend on which of the two it uses.
//
// A [Client] also asks servers about their processes: [Client.Ask] what they own and hold, [Client.Alive] for a sign of life.
package peer
