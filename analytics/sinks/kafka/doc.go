// Package kafka produces events to a topic of Kafka, or of a store that speaks its protocol.
//
// Each event is one record: the JSON object as its value, the event id as its key, so that an event that comes again is in the same
// partition, where readers remove it, or compaction does. A batch is delivered once all replicas in sync have it. The sink makes no topic:
// partitions, replicas and how long events are kept are the operator's decision.
package kafka
