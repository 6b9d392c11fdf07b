// Package relay writes an engine's response to the client, with rolling deadlines on both sides. It ensures that a truncated stream
// never looks complete: the client gets the API's own error event, and then a connection that is closed without the last chunk.
//
// A response has ended properly if its last event has arrived or its JSON has closed; any other response by its length or its last
// chunk. A response that shows its end in no such way is written as it came, until the connection closes: see [WriteUntilClose].
//
// A [QueueEventStream] is a response that begins before the engine's: its client reads comments about the position of its request
// in the queue, while the request is tried at colos as any other.
package relay
