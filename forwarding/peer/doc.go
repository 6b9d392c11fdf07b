// Package peer is one request carried one hop, whether or not there is a network in between: the [Request] that a node makes
// of a colo server, and the [Answer] that comes of it, which is a response to relay or a verdict.
//
// [Func] is the signature that all ways of carrying it share: a colo server in this process (colo.Server.Do), and a [Client]'s
// path to one elsewhere, whose peer listener is an adapter around the same function. So whatever sends requests on, an entry or
// a colo, need not know which of the two it has.
package peer
