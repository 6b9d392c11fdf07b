// Package fairqueue decides which of the requests waiting for a slot is served next, and which must leave when there is
// no room. It is a passive structure: it has no locks, no clock and no goroutines, and is not safe for concurrent use.
// The caller serialises the calls and passes the time in.
//
// # Order
//
// Bands are served strictly, the highest first, but for promotion (below). Inside a band of discipline Fair, accounts
// are served by start-time fair queuing. A flow is what an account has in one band. A flow has a start tag S, a band has
// a virtual time V:
//
//	becomes backlogged       S = max(S, L), where L = min(V, the S of the flow at the head of the order)
//	order                    first the fresh flows: those that became backlogged at an S of at most V and have not been
//	                         served since, the one with the oldest head item foremost; then the others by least S, and
//	                         of equal S likewise
//	served, at estimate c    V = max(V, S), then S = S + c/weight
//	running, has used u > c  S = S + (u-c)/weight, and c = u
//	finishes, has used u     S = max(S + (u-c)/weight, L when the flow last became backlogged)
//	band becomes idle        V = the greatest S that any flow had
//
// A request that gets a slot without waiting becomes backlogged and is served in one step. So an account cannot claim
// service for the time that it was away; an account that ran ahead waits until the others have caught up; and what an
// account used counts for as long as it matters: its state is kept while it is backlogged, has requests running, or has
// S > L. When an account becomes idle, four that have been idle for long are examined, and forgotten if nothing of this
// holds for them; but a few hundred are kept for their estimates. When all accounts are idle, all but those few hundred
// are forgotten at once.
//
// A newly backlogged flow starts at L, and not at V as in SFQ: refunds of overestimated requests push other flows below
// V, and starting at V would make the newcomer wait for all that is due to them, which may be as many requests as their
// accounts had running. At L it is beside the flow that is furthest behind. A flow whose S is at most V, whose account has
// had no more than its share, is fresh and served first, however far others have fallen behind. This starves no flow: V
// stands still while flows below V are served, so an account that comes again and again is soon past V and waits until
// the others have caught up.
//
// Discipline FIFO differs only in the order: the oldest item is served, whichever account it belongs to.
//
// # Estimates
//
// With Learn, the cost of a request is not known before it ends. It is estimated from the input that its claim states,
// corrected by what earlier claims of the account were worth, and from the mean cost of one output of the account, times
// as many as the claim asks for, but at most what the claim allows. Both means are exponentially weighted over about 32
// requests. An account without a history is estimated by the mean of all. Use beyond the estimate is charged while the
// request runs (Charge), and the rest is corrected when it ends (Finish): in the long run an account pays for what it
// used, however wrong its estimates are.
//
// # The bound
//
// Let two flows f and g of a band both be backlogged throughout an interval, below their caps and with items that any
// slot suits. In it f is served W(f) and g W(g), in units of cost; c(f) and c(g) are the largest costs of one item of
// each. Where costs are as estimated,
//
//	|W(f)/weight(f) - W(g)/weight(g)| <= c(f)/weight(f) + c(g)/weight(g)
//
// whatever any other account does, however many slots there are and however they come and go. For then no flow is below
// V, so L is V, and both S lie in [V, V + c/weight] throughout: above V, because the flow that is served has the least S
// or has just become backlogged, which is at V; below V + c/weight, because a flow is served only when its S is the
// least, and V is then that S.
//
// Where costs are estimated, W counts what was charged, and what was used differs from that by at most the errors in the
// estimates of what runs. A flow that was charged too much falls below V by at most that much when it is refunded, and
// is served for it before others that have waited longer: the bound grows by V - L at the beginning of the interval and
// by the refunds within it. No request is charged in advance more than eight times what those of its account cost in the
// end, on the mean, so neither term is large, and neither accumulates.
//
// An account that becomes backlogged and is not ahead (S <= V) is served after at most one item of each other account
// that is no further ahead, however many items these have waiting, whatever their weights and refunds.
//
// Sources: P. Goyal, H. M. Vin and H. Cheng, "Start-time Fair Queuing: A Scheduling Algorithm for Integrated Services
// Packet Switching Networks", SIGCOMM 1996, for S, V and the proof of the bound. Y. Sheng, S. Cao, D. Li and others,
// "Fairness in Serving Large Language Models" (Virtual Token Counter), OSDI 2024, for the lift of an account that comes
// back, and for charging an estimate and correcting it where costs are known only afterwards.
//
// # Bands
//
// Promotion keeps a low band from starving: at every eighth service, if the account with the oldest head item has waited
// PromoteAfter, its band is served, by its own order. It is the band that is promoted, and not that account: the oldest
// head item belongs, as a rule, to the account with the longest backlog. That account would get an eighth of all service
// beside its share, and with many accounts that is most of what it gets.
//
// # Caps
//
// An account that runs as many requests as it may (Concurrent, or MaxShare of Slots) leaves the order with all that it
// has waiting. When it is below its cap, its flows become backlogged again: it was not denied anything that it could
// have used, so it has nothing to claim. AtLimit reports an account whose cap holds it back; a cap of as many as there
// are slots does not.
//
// # Room
//
// The queue is bounded in items, in bytes, and in items of each account. Where an account's own bound is reached, a
// newcomer of that account is refused. Where a bound of the whole queue is reached, the newcomer takes the place of the
// newest item of the account that holds the most of that bound for its weight, among the items of the newcomer's band
// and lower ones, and only if that account holds more for its weight than the newcomer's account would with it.
// Otherwise the newcomer is refused. So an account that holds no more than its share of the room keeps it, except to
// higher bands, and a flooder can push out only itself. All victims are determined before the first one leaves. A bound
// that is lowered below what waits evicts nothing: until enough items were served, a newcomer evicts as much as it needs
// itself and no more.
package fairqueue
