// Package admission holds this node's pools: it builds them from the fleet table, keeps them up to date while they
// work, and takes endpoints out of them that do not answer. It knows no transport, so any front end can ask it for
// permits.
//
// [Manager.Apply] takes a table and [Manager.Pool] finds a pool. [Pool.Acquire] gives a [Grant], a permit together with the
// endpoint that it is for, and the caller says what became of it: [Pool.Succeeded], [Pool.Failed] or [Pool.Full].
//
// An endpoint's slots are what its document says, or, with concurrency: auto, what is found from how long its answers take
// to begin ([Pool.FirstByte]): see gradient.
//
// Those times bound what can still be served ([Pool.LastMoment]): a request with a deadline must have its permit as long before
// it as an answer takes at least to begin, so that nothing waits, or is sent to an engine, in vain: see soonest.
//
// Held slots belong to an engine's URL. They outlive every change of documents: an endpoint that moves to another pool
// gets only the slots that its running requests leave, and the limit that was found for its engine.
//
// An endpoint is out while its health check fails (active), or for a time that doubles with each relapse after five
// failures in a row (passive); one probe brings it back. Never is more than half of a pool out for passive reasons.
package admission
