// Package relay writes an engine's response to the client, with rolling deadlines on both sides. It ensures that a truncated stream
// never looks complete: the client gets the API's own error event, and then a connection that is closed without the last chunk.
//
// A response has ended properly if its last event has arrived or its JSON has closed; any other response by its length or its last
// chunk. A response that shows its end in no such way is written as it came, until the connection closes: see [WriteUntilClose].
//
// A client that reads slowly need not keep the server waiting: with [Backlogs], the relay reads ahead while a write would block, into memory that is
// bounded and that a client which keeps up does not need. The server's end is then known before the client has read it, and the relay tells by
// OnExchangeEnd; the outcome is decided when the client has taken the rest.
//
// A [QueueEventStream] is a response that begins before the engine's: its client reads comments about the position of its request
// in the queue, while the request is tried at colos as any other.
package relay
