// Package hop defines what the nodes of a fleet send each other about a request, besides the request and the response: the signed
// [Token] of an entry or colo server, which a [ReplayGuard] accepts once, the [Verdict] and [Load] that a colo server answers with, the
// [Progress] of a waiting request, and the headers that carry them. [RetryBudget] bounds the attempts that a node adds to its
// requests. The package opens no connection.
//
// A token may name the next stops of the plan ([Token.Onward]), to which a colo that is out of capacity sends the request on. The sender
// answers for them, and the receiver checks that they lead to no colo twice. The answer has one [Visit] for each server that did not serve
// the request, so that the entry learns about each what it would have learned by asking itself.
//
// Over a link to a server that reads them, most requests and their answers have binary heads ([ParseRequestHead]) instead of HTTP's lines of text.
//
// A token is binary ([BinaryTokenProtocol]), or JSON for older receivers; receivers accept both.
//
// Names of nodes are unique in a colo only, so a token names servers COLO/NODE ([NodeName]) from [NodeNamesProtocol] on. Until no older
// node is left, receivers also accept the name of the node alone, and senders use what the receiver's registered protocol allows.
package hop
