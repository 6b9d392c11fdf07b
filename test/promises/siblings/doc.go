// Package siblings has the end-to-end tests of the colo servers of one colo, as processes, while they join, drain, restart,
// fall silent, are cut off and die under load.
//
//   - P1, never too many: from a whole colo, no engine ever has more requests at once than its limit. The engines count. The one
//     exception is a server that is silent for more than ten seconds without having ended; it is measured (random_faults). A
//     server that is stopped with long streams keeps their slots until then (stopped).
//     When it goes on after its lease has expired, it sends nothing that it granted before (fence).
//   - P5, never vague, and P7, never a false end: each request is served as a whole, is refused with a reason, or is a stream
//     that ends by an error event (all tests). A rolling restart fails no request (rolling_restart), and
//     neither does an etcd that is away (stopped).
//   - P8, never forgotten: each request that was answered has one final event, whatever happened to the servers.
//   - After each handover, another server grants within a stated time (handover, which has the benchmarks, too).
//   - The next home sends conversations to the engines that have them in their caches (learned).
//   - Gossip whose packets are lost changes nothing else (gossip).
//   - An entry with an old table finds the home of a pool, and a server of an older version shares no engines (stale).
package siblings
