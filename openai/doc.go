// Package openai is the wire dialect: the requests that an OpenAI client may send, the answers that an engine may give,
// and the errors in both directions. It is pure: no clock, no network, no goroutine, nothing but the standard library.
//
// # Requests
//
// [ParseRoute] knows the paths that exist, by one table (paths.go), and repairs none. [Peek] passes over a body once, without building it,
// and finds what routing needs: the model and whether the answer is streamed. It is stricter than any parser behind it,
// so that no other parser can see another model than the one that was admitted and billed: names that occur twice, also
// when escaped or in another letter case, are refused, and so is text that is not UTF-8. [Body.Splice] then replaces
// what the engine must see differently, and leaves every other byte as it is.
//
// # Answers
//
// A [Stream] follows a stream of server-sent events (WHATWG HTML, section 9.2): it delivers whole events, knows the end
// that each API gives its streams, reads the usage, and takes out a usage event that the client did not ask for. It
// delivers nothing behind the end, and no text of a comment that looks like an entry's. An event up to [MaxHeldEvent] is
// held until it is complete. A longer one passes in pieces, and only a skeleton of it is kept (its JSON with long strings
// cut short), which is enough for its type and usage. The output of a Stream depends on the bytes alone, never on how
// they were cut into pieces.
//
// A [Translator] gets each event of a stream whose client has another API, and only what it makes of them is delivered. Such a stream is
// followed as the engine's, whose end, errors and usage count; an event of it is held whole, up to [MaxEvent].
//
// [ReadBody] reads the usage of a complete answer and whether its JSON closes, [UsageScanner] those of an answer that
// passes in pieces, and [Conversation] sums the usage of a realtime session.
//
// # Bounds
//
// Nothing here holds more than it was given, except [Stream]: at most three times MaxHeldEvent (the held event, its
// data lines joined, the output), the piece being fed, and a skeleton of 16 KiB, which is all that UsageScanner and
// Conversation hold. JSON may nest 200 deep. Time is linear in the bytes.
//
// # Errors
//
// [Error] is a row of the one error table that clients see.
package openai
