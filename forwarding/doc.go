// Package forwarding is the parent of the packages that carry a request one hop: from an entry to a colo server, and from there to an
// engine. It has no code of its own.
//
//	peer                one request over one hop, with or without a network: a response or a verdict
//	realtime            WebSockets between hijacked connections
//	relay               the response on its way to the client
//	server   transport  fasthttp made strict; an HTTP/1.1 client for one attempt
//	peertls  httpguard  mutual TLS between nodes; strict HTTP/1.1 requests
//	hop      netconn    tokens, verdicts and headers between nodes; connections with rolling deadlines
//	link                many streams over one connection between nodes
//	reload              values from files that may change
package forwarding
