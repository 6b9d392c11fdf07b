// Package simengine is a simulated inference engine. It is for trying things
// out and for tests: it speaks the HTTP dialect of a real engine, takes the
// time of one, and says nothing of worth.
//
// # What it imitates
//
// A continuous-batching engine such as vLLM: a fixed number of slots generate
// side by side, whatever else arrives waits behind them in order of arrival, a
// request takes TTFT until its first token and ITL for each further one, and
// its slot is free the moment its last token is made or its client has left.
// With Config.Knee the batch has a bound to what it gets done, whatever its
// slots are.
// Text is deterministic. A prompt that begins with "echo:" is answered with its
// own words; the answer to one that begins with "wide:" and a number has tokens
// of so many bytes.
//
// Spoken are chat completions, completions, responses, embeddings, rerank,
// images, audio (transcriptions, translations, speech) and the model list, each
// plain and, where the API has it, streamed; and realtime over WebSocket, where
// a session holds a slot for as long as it is open.
//
// Beside what real engines have there are GET /stats, POST, GET and DELETE
// /faults, and GET /requests (with Config.Record); in the body of a speech
// request "bytes", the size of the answer; and in a realtime session the event
// {"type":"simengine.close","code":4000,"reason":"…"}, on which the engine closes
// with that code.
//
// # What tests rely on
//
// A request counts as in hand (Stats.Running, Stats.Waiting, Stats.Peak) from
// the moment its body has been read until just before the last bytes of its
// answer are written, or before its connection is closed. So a caller that
// sends one request only when the answer to another has ended, or its
// connection was closed, never sees Peak above what it allowed itself.
//
// Config.Watch is told of every inference request when it has left: when it came,
// when it got its slot and when it gave it back, and what it was asked.
//
// A client that leaves, also by half-closing its connection, ends its request
// at once, queued or running, and the engine then closes the connection.
//
// # Faults
//
// SetFault, or POST /faults, makes it misbehave for one model or for all: see
// the constants FaultX. A fault comes into force with the next request, holds
// for Count requests, or until it is cleared, and applies to plain and streamed
// answers, and to realtime sessions, as far as it has a meaning there; else the
// request is answered as usual.
//
// # Bounds
//
// A request body may have 64 MiB, a WebSocket message 16 MiB. The queue is not
// bounded: bounding it is what a gateway in front is for.
package simengine
