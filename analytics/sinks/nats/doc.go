// Package nats publishes events to a stream of NATS JetStream.
//
// Each event is one message: the JSON object, with its event id and phase as message id. The stream removes an event that comes again
// within its duplicate window; behind that, readers do by the id. A batch is delivered once the stream has acknowledged each of its
// messages. The sink makes no stream: how long events are kept, and where, is the operator's decision.
package nats
