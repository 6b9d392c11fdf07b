// Package openai is the wire dialect: what an OpenAI client may send, what an
// engine may answer, and what both look like when something went wrong. It is
// pure: no clock, no network, no goroutine, nothing but the standard library.
//
// # Requests
//
// [CheckHead] refuses every request head that two HTTP parsers could read in
// two ways (RFC 9112, section 11.2: request smuggling). [Framing] stands below the
// server's parser and refuses what that does not show: first lines and chunks
// that are not written as they must be. [ParseRoute] knows the
// few paths there are and repairs none. [Peek] passes over a body once, without
// building it, and finds what has to be known of it: the model and whether it
// streams. It is stricter than any parser behind it, so that none can see
// another model than the one that was admitted and billed: names that occur
// twice, also when escaped or in other letter case, are refused, and so is text
// that is not UTF-8. [Body.Splice] then puts in what the engine must see
// instead, and leaves every other byte as it was.
//
// # Answers
//
// A [Stream] follows a stream of server-sent events (WHATWG HTML, section 9.2):
// it delivers whole events, knows the end that each API gives its streams, reads
// the usage, and takes out the usage event that only we asked for. An event up
// to [MaxHeldEvent] is held until it is whole; of a longer one only a sketch is
// kept (its JSON with long strings cut short), which is enough to know its type
// and usage. What a Stream does depends on the bytes alone, never on how they
// were cut into pieces.
//
// [BodyUsage] reads the usage of an answer that came whole, [LongBody] that of
// one that passes in pieces, and [Conversation] sums it over a realtime session.
//
// # Bounds
//
// Nothing here holds more than it was given, but for [Stream]: at most three
// times MaxHeldEvent (what is held, its data lines joined, what is delivered),
// the piece being fed, and a sketch of 16 KiB, which is all that LongBody and
// Conversation have. JSON may nest 200 deep. Time is linear in the bytes.
//
// # Errors
//
// [Error] is a row of the one error table that clients see.
package openai
