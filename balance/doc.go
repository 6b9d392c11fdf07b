// Package balance chooses which endpoint a request gets, of those with a free slot: no locks, no clock. A [Balancer] has what a policy
// needs to know of the endpoints of one pool; package permits owns it, asks it under the mutex that grants the slot, and tells it of
// every change.
//
// A policy chooses among the endpoints that are open to the request: those with a free slot that the request does not avoid. If it
// would rather have another, whose slots are all taken, it names that too ([Choice.Prefers]), and the pool decides whether the request
// waits for it. So a policy never decides whether a request runs, only where.
package balance
