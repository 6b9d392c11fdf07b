// Package ship sends the final events of a node from its journal to sinks: in the order of the journal, at least once, from a position
// that survives the process.
//
// A [Shipper] carries the events of one node to one sink, beside all others: it reads lines from the segments, gives them to the sink in
// batches as they are, and saves the position behind a batch once the sink has taken it. A process that is killed in between sends the
// batch again; receivers remove repeated events by event id and phase.
//
// After a failure the batch is sent again after 100 ms, doubling to 30 s, with jitter, or when Retry-After says. A batch that the sink will
// never accept ([Rejected]) is split in halves until single events remain. These are counted, logged and skipped, if the sink has taken another
// event of the batch. If it has taken none, it may reject whatever it gets, so that this is a failure: the batch is kept, gets the events that
// follow, and is sent again. While a sink is unreachable, its shipper holds one batch in memory.
package ship
