// Package siblings has the end-to-end tests of the colo servers of one colo, as processes, while they join, drain, restart,
// fall silent, are cut off and die under load.
//
//   - P1, never too many: from a whole colo, no engine ever has more requests at once than its limit. The engines count. The one
//     exception is a server that is silent for more than ten seconds without having ended; it is measured (random_faults).
//   - P5, never vague, and P7, never a false end: each request is served as a whole, is refused with a reason, or is a stream
//     that ends by an error event (all tests). A rolling restart fails no request (rolling_restart).
//   - P8, never forgotten: each request that was answered has one final event, whatever happened to the servers.
package siblings
