// Package relay writes an engine's response to the client, with rolling deadlines on both sides. It holds the rule that a stream
// that was cut short never looks complete: the client gets the API's own error event, and then a connection that is closed
// without the last chunk.
//
// A [QueueEventStream] is an answer that begins before there is one: a stream whose client reads comments on how its request waits,
// while colos are tried as for any other request.
package relay
