// Package capacity has the end-to-end tests of three promises.
//
//   - P1, never too many: an engine never has more requests in flight than its concurrency, also while clients leave,
//     engines misbehave, and documents change the limit or move the engine (engine_limit, random_faults, pool_changes,
//     auto_limit).
//   - P3, never unbounded: a queue is bounded in requests, by account, in bytes and in time, and nothing waits that can
//     no longer be served in time (queue_bounds, waiter_memory, deadline, deadline_ttft).
//   - P4, never starved: an account within its fair share gets it, however much another floods (fairness, overload,
//     retry_after).
package capacity
