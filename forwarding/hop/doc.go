// Package hop is what one node of the fleet says to the next about a request: the signed [Token] by which it is believed,
// the [Verdict] and [Load] that a colo server answers with, the [Progress] of a request that waits, the headers that carry
// them, and the [RetryBudget] that bounds what a storm of failures may add. It is pure: it opens no connection.
package hop
