// Package link carries many byte streams over one connection between two nodes, so that a request costs a share of a write and of a read
// instead of a connection of its own. A stream is one exchange of HTTP, about which this package knows nothing.
//
//	request → Stream.Open ─────┐                              ┌→ Accept: a new stream
//	answer → Stream.Write ─────┼→ sender ═ connection ═ reader ┼→ Stream.Read
//	chunk → TryWrite → Flusher ┘                              └→ OnArrival: the callback of a relayed stream
//
// A connection becomes a link by an HTTP upgrade: package transport asks for it, and the server answers by AcceptLink of package server.
//
// # Frames
//
// A frame has a header of 8 bytes, little endian, and a payload:
//
//	type u8 | flags u8 | length of the payload u16 | stream u32
//
//	type  name     payload                                  flags
//	1     open     the first bytes of a stream              1: the sender sends no more of them
//	2     data     further bytes, up to 16 KiB              1: likewise
//	3     window   u32: how many bytes more may be sent
//	4     reset    none; the stream has ended both ways     2: it was not accepted, and nothing has happened
//	5, 6  ping, pong
//	7     go away  none; "stream" is the last that was accepted, and no further one is opened or accepted
//
// The side that dialled opens streams, with ids that count up from 1. Anything else that a frame cannot mean (an unknown type, a stream out of order, bytes
// beyond an end or a window) is a violation, and breaks the link. Frames of streams that this side has forgotten are dropped.
//
// # Flow control
//
// Each direction of a stream has a window of 64 KiB, so a reader that stalls costs no more than that, and delays no other stream. A reader returns
// credit once it has read half a window. A window does not grow: over a round trip of 100 ms a response of some megabytes comes at 640 KB/s, and a reader
// that has stopped holds no more memory than before.
//
// # Writing
//
// A goroutine that has a frame appends it to the link's memory, and writes all that is there unless another goroutine is already writing. It first yields once
// (runtime.Gosched), so that others which are ready to run append theirs. The write does not wait: what the connection does not take is left to the link's writer. A
// writer blocks only for its own window, or, while 1 MiB is pending on the link, for its turn; its deadline bounds both. Streams wait for turns in the order
// in which they came, and a turn is one frame.
//
// Frames for which the other side does not wait (the end of a stream whose bytes were sent) go with the next write, or after 100 ms. Bytes of TryWrite
// go with the next [Flusher.Flush]: one write for the chunks of all streams that a round of an event loop has produced. In steady state, an exchange
// costs at most one write in each direction.
//
// # Reading
//
// One goroutine reads, and handles all frames that have arrived; it never waits for a stream. Bytes wake the goroutine that reads the stream, or are handled right there by the function of
// [Stream.OnArrival]. After a round with many of those calls the reader rests, so that more arrives before the next.
//
// Waiting with a deadline sets no timer in most cases: a waiter is used again by later waits, and its timer is moved only if it would fire too late.
//
// # The end of a link
//
// A link that breaks ends all of its streams with an error, behind the bytes that had arrived; a stream whose end had arrived is not affected. The error wraps [ErrNotSent] if the other side
// cannot have any byte of the stream: the connection has not taken it, or the other side has said so. Such a request can be sent elsewhere. After GoAway, a link ends with its last stream;
// the side that opens streams closes the connection, since only it knows that it waits for nothing. If there are streams, and nothing arrives for 2 s, a ping
// asks for an answer. Without any bytes for 2 s more, the side that opens streams opens no further ones, and closes the connection when it has none; the other side may have been
// stopped, and then it goes on with those that it has. The side that accepts streams breaks the link after 30 s more. So does either side when the connection has taken nothing
// for 32 s, unless it is the side that opens streams, and hears nothing either.
//
// # Sources
//
// Streams, windows, GOAWAY with the last stream, and "refused" are those of HTTP/2 (RFC 9113, sections 4 to 6). That ids come
// from one side, and the small header, are from yamux (its specification is in hashicorp/yamux, spec.md).
//
// HTTP/2 itself is not used, since its head compression has state that all streams share, and its implementations in Go wake two goroutines for each frame. Yamux
// writes each frame by itself, waits for the connection under a mutex, and wakes a goroutine for each frame: with version 0.1.2 in the place of this package, the exchange
// of BenchmarkExchange takes 5 to 6 times as long with ten times the allocations, and the chunk of BenchmarkChunk 50 times as long.
package link
