// Package relay writes an engine's response to the client, with rolling deadlines on both sides. It ensures that a truncated stream
// never looks complete: the client gets the API's own error event, and then a connection that is closed without the last chunk.
//
// Each response needs a voucher for its end: the last event of a stream, JSON that closes, or the length or chunks of the framing. A
// response without any is written as it came, until the connection closes: see [WriteUntilClose].
//
// A [QueueEventStream] is a response that begins before the engine's: its client reads comments about the position of its request
// in the queue, while the request is tried at colos as any other.
package relay
