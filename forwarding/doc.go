// Package forwarding is the roof over the packages that carry one request one hop: from an entry to a colo server, and from
// there to an engine. It has no code of its own.
//
//	realtime            WebSockets between connections that were taken over
//	peer                one request over one hop: what is asked of a colo, and what comes of it
//	relay               an engine's response on its way to the client
//	server   transport  fasthttp made strict; one attempt at one server
//	peertls  httpguard  who a node is; requests that can be read in one way only
//	hop      netconn    what nodes say to each other; connections with rolling deadlines
package forwarding
