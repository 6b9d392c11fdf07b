// Package hop defines what the nodes of a fleet send each other about a request, besides the request and the response: the signed
// [Token] of an entry or colo server, which a [ReplayGuard] accepts once, the [Verdict] and [Load] that a colo server answers with, the
// [Progress] of a waiting request, and the headers that carry them. [RetryBudget] bounds the attempts that a node adds to its
// requests. The package opens no connection.
package hop
