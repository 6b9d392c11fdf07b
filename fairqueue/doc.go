// Package fairqueue decides who, of the requests waiting for a slot, is served next, and who must leave when there is
// no room. It is a passive structure: it has no locks, no clock and no goroutines, and is not safe for concurrent use.
// The caller serialises the calls and passes the time in.
//
// # Order
//
// Bands are served strictly, the highest first (but see below). Inside a band of discipline Fair, accounts take turns
// by start-time fair queuing. A flow is what an account has in one band; it has a virtual time S, the band has V:
//
//	starts to wait           S = max(S, L), where L = min(V, the S of the flow that has the turn)
//	turn                     a fresh flow is served, one that began to wait at an S of at most V, and has had nothing
//	                         since; among these the one whose oldest item is oldest; else the least S, and of equals
//	                         likewise
//	served, at estimate c    V = max(V, S), then S = S + c/weight
//	runs, having used u > c  S = S + (u-c)/weight, and c = u
//	ends, having used u      S = max(S + (u-c)/weight, L when the flow last started to wait)
//	band falls idle          V = the greatest S there was
//
// A request that gets a slot without waiting starts to wait and is served in one step. So an account that was away
// cannot claim for the time it was away, one that ran ahead waits until the others caught up, and what an account used
// counts for as long as it matters: the state of an account is kept while it waits or runs or has S > L. When one comes
// to rest, four that have rested for long are looked at, and forgotten if that is all; but a few hundred are kept for what
// they have taught. When all rest, all others are forgotten at once.
//
// V alone, where textbooks have it, would not do for L. An account whose estimates were too high is refunded when its
// requests end, and falls behind V. It has that coming to it, but so far as others wait beside it and not so far as
// they come: who starts to wait at V would wait for all that it has to catch up with, which may be as many requests as
// it had running. Who starts at L stands beside the one that is furthest behind; and who has had no more than V goes
// first when it comes, however far others have fallen behind that. It starves nobody: V stands still while those behind
// it are served, so an account that comes again and again is soon past it, and waits until the others have caught up.
//
// # Estimates
//
// With Learn, what a request costs is not known before it has ended. It is estimated by its claim's input, corrected by
// what claims of the account were worth, and by the mean cost of the account's outputs, but no more than the claim
// allows. Both means are exponentially weighted over about 32 requests. An account that is not known is taken for the
// mean of all. What a request uses beyond its estimate is charged while it runs (Charge), the rest is put right at its
// end (Finish): in the long run an account pays for what it used, however wrong its estimates are.
//
// Discipline FIFO is the same but for the turn: the oldest item is served, whoever it belongs to.
//
// # The bound
//
// Let two flows f and g of a band both wait throughout an interval, below their caps and with items that every slot
// suits, in which f is served W(f) and g W(g), in units of cost; let c(f) and c(g) be the largest cost of one item of
// each. Where costs are as estimated,
//
//	|W(f)/weight(f) - W(g)/weight(g)| <= c(f)/weight(f) + c(g)/weight(g)
//
// whatever any other account does, however many slots there are and however they come and go. For then nobody is behind
// V, L is V, and both S lie in [V, V + c/weight] throughout: above V, because what is served has the least S or begins
// to wait, which is at V; below, because a flow is served only when its S is the least, and V is then that S.
//
// Where costs are estimated, W counts what was charged, and what was used differs from that by no more than the errors
// in the estimates of what runs. Who was charged too much falls behind V by at most that when it is refunded, and is
// served for it before others that wait longer: the bound grows by V - L at the interval's beginning and by the refunds
// in it. No request is charged upfront more than eight times what those of its account are in the end, on the mean, so
// neither is much, and neither adds up over time.
//
// An account that starts to wait and is not ahead (S <= V) is served after at most one item of each other account that
// is no further ahead, however many they have waiting, whatever their weights and whatever they were refunded.
//
// Sources: P. Goyal, H. M. Vin and H. Cheng, "Start-time Fair Queuing: A Scheduling Algorithm for Integrated Services
// Packet Switching Networks", SIGCOMM 1996, for S, V and the proof of the bound. Y. Sheng, S. Cao, D. Li and others,
// "Fairness in Serving Large Language Models" (Virtual Token Counter), OSDI 2024, for the lift of an account that comes
// back and for charging an estimate and correcting it, where costs are known only afterwards.
//
// # Bands
//
// So that a low band does not starve, every eighth turn is different: if the account with the oldest first item has
// waited PromoteAfter, its band has the turn, and gives it by its own order. The turn goes to the band and not to that
// account, because the oldest first item is, as a rule, that of the account with the longest backlog. It would get an
// eighth of all service beside its share, and with many accounts that is most of what it gets.
//
// # Caps
//
// An account that runs as many as it may (Concurrent, or MaxShare of Slots) is out of the order, with all it has
// waiting. When it is below its cap it starts to wait again: it was not denied anything that it could have used, so it
// has nothing to claim.
//
// # Room
//
// The queue is bounded in items, in bytes, and in items of each account. Where one account's bound is reached, a
// newcomer of that account is refused. Where a bound of all is reached, the newcomer takes the place of the newest item
// of the account that holds the most of that bound for its weight, among the items of the newcomer's band and lower
// ones; and only if that account holds more for its weight than the newcomer's would with it. Otherwise it is refused.
// So an account that holds no more than its share of the room keeps it, except to higher bands; and a flooder can only
// push out itself. Who leaves is decided completely before anybody leaves. Who waits when a bound is lowered below what
// waits need not leave for that: until enough were served, a newcomer takes as much room as it needs itself and no
// more.
package fairqueue
