// Package otlp sends events as log records over OTLP, by the SDK of OpenTelemetry.
//
// A record has the time of its event, a text such as "inference completed" as its body, and all fields of the event as attributes
// (colonnade.event_id, colonnade.account, …). The protocol has no way to mark a repeated request: readers remove repeated events by
// colonnade.event_id and colonnade.phase.
package otlp
