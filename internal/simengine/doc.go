// Package simengine is a simulated inference engine, for demonstrations and for tests. It speaks the HTTP dialect of a
// real engine and takes as long as one; its text means nothing.
//
// # Behaviour
//
// The engine imitates continuous batching as in vLLM: a fixed number of slots generate side by side, further requests
// wait behind them in order of arrival, a request takes TTFT until its first token and ITL for each further one, and
// its slot is free the moment its last token is made or its client has left. Config.Knee bounds the throughput of the
// batch, however many slots it has. Text is deterministic. A prompt that begins with "echo:" is answered with its own
// words; the answer to a prompt that begins with "wide:" and a number has tokens of that many bytes; a prompt such as
// "call: weather {\"city\":\"Paris\"}" is answered with a call of that tool, if the request has tools.
//
// With Config.CacheBlocks it has a prefix cache (package prefixcache), in which a word is a token, and Config.Prefill is the time
// that a token of a prompt takes unless it is cached. Usage and metrics show what was cached. Realtime sessions do not use it. ServeEvents publishes what the cache stores and evicts as vLLM and SGLang do.
//
// It serves chat completions, completions, responses, embeddings, rerank, images, audio (transcriptions, translations,
// speech) and the model list, each plain and, where the API has it, streamed; and realtime over WebSocket, where a
// session holds a slot for as long as it is open.
//
// Extensions, for tests: GET /stats; POST, GET and DELETE /faults; GET /requests (with Config.Record); in the body of a
// speech request "bytes", the size of the answer; and in a realtime session the event
// {"type":"simengine.close","code":4000,"reason":"…"}, on which the engine closes with that code.
//
// With Config.Kind it plays an engine of that kind: it has the paths that such engines have, answers there in their dialects (Anthropic's Messages,
// Ollama's lines, TGI's and llama.cpp's events), words errors as they do, and answers questions about itself as they do. GET /metrics has the names that such
// an engine gives its figures; Ollama has no such page. Paths at which engines
// only count or split tokens take no slot and no time.
//
// # Guarantees for tests
//
// A request is counted (Stats.Running, Stats.Waiting, Stats.Peak) from the moment its body has been read until just
// before the last bytes of its answer are written, or before its connection is closed. So a caller that sends a request
// only after the answer to another has ended, or its connection was closed, never sees Peak above the number of
// requests that it allows itself.
//
// Config.Watch gets a record of every inference request when it has left: when it arrived, when it got its slot and
// when it released it, and its prompt.
//
// A client that leaves, also by half-closing its connection, ends its request at once, queued or running, and the
// engine then closes the connection.
//
// # Faults
//
// SetFault, or POST /faults, makes the engine misbehave for one model or for all: see the constants FaultX. A fault
// takes effect with the next request, holds for Count requests or until it is cleared, and applies to plain and
// streamed answers and to realtime sessions, as far as it has a meaning there; otherwise the request is answered as
// usual. In each dialect a fault is what an engine of that kind would show: TGI is full with 429, and Ollama that fails in a stream of Anthropic's
// dialect only leaves out its end.
//
// # Bounds
//
// A request body may have 64 MiB, a WebSocket message 16 MiB. The queue is not bounded: that is the job of a gateway in
// front.
package simengine
