// Package tracing makes spans of requests, as OpenTelemetry has them, and exports them by OTLP.
//
// The standard variables of the environment decide everything: without an endpoint for OTLP, [Open] returns no [Tracer], and a node only
// passes on the headers traceparent and tracestate as they came. The entry decides once for each request whether its spans are recorded
// ([Tracer.Begin]); that decision is a bit in the header traceparent, by which all servers behind it, and the engine, go
// ([Tracer.Continue]). A colo server never begins a trace of its own.
//
// Spans are made when they have ended, from times that the request knows already. So an unsampled request costs two headers that are
// looked up and at most one that is written. The ids of spans are chosen before, since the next server needs them.
//
// A span holds what an event holds: names from the fleet table, ids, times and counts. Of what a client sends, only the ids in a valid
// traceparent are exported; tracestate is free text of the client, so it is passed on and never exported.
//
// A collector that is away or slow delays nothing: a node keeps as many spans as OTEL_BSP_MAX_QUEUE_SIZE says, of at most 4 KiB each, and
// counts those for which there is no room ([Stats]).
package tracing
