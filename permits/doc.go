// Package permits decides which request may run now, and on which endpoint. A [Pool] has the slots of its endpoints and
// the requests that wait for one; a [Permit] is the right to use one slot, from the grant to Release.
//
// # One lock
//
// One mutex guards slots and waiters together, so admission and the choice of the endpoint are one decision, and this
// holds whenever the mutex is free:
//
//	no request waits beside a free slot that it could use.
//
// "Could use" means: its account is below its caps, the endpoint is not one to avoid, its client is still there and its
// time has not run out. Two rules follow. Everything that frees a slot, or makes a request able to use one, hands the
// slot over before it releases the mutex: a waiter that is woken has its permit already and competes with nothing. And a
// newcomer that finds a slot free may take it, because no waiter could; it overtakes none. The state of an endpoint
// changes only under the mutex and never by the mere passing of time: a "full" mark ends when its timer says so, and the
// timer hands the slots over like everything else.
//
// A request that is granted its permit at the moment when its client leaves gives it back at once, unused and uncharged,
// and Acquire returns the context's cause: a permit never leaves Acquire without a caller to release it.
//
// The model for this is semaphore.Weighted of golang.org/x/sync. Package fairqueue decides which waiter is next. A
// permit that is granted on arrival allocates nothing. A request that waits costs about 800 bytes, and its goroutine
// unless it is detached (Request.Detached): then the pool calls its caller when the wait is over. In all, a
// waiting request with a small body takes about 40 KiB in an entry and a colo together, if they share a link: most of that
// is the client's connection with its buffers. It may take 44 KiB (TestMemoryOfWaiters).
//
// # Permits outlive changes
//
// Permits are counted against the ID of their endpoint until they are released, whatever happens to the endpoint
// meanwhile: made smaller, unusable, removed, or removed and added again. New permits are granted only while fewer than
// its concurrency are held.
//
// # Several servers
//
// The servers of a colo have a pool each for the same endpoints, and package homes decides which of them may grant where. On
// an endpoint that is Withheld, a pool grants nothing, so that what it holds there only falls; the server that may grant has
// that in Endpoint.Taken. Requests wait for a withheld endpoint as for one without a free slot. SetHome says whether requests
// are to wait here at all: if not, waiters and newcomers are refused with Moved, and the home takes them with Rejoin, which
// gives each its place by arrival. Only requests that found no answer there wait here too (Request.StandIn).
//
// A permit is of an epoch of the pool's [Fence]. A process that has registered again begins a new one, since another server
// may have granted the same slots: a permit of an earlier epoch is released without use, and is still counted until then.
//
// # Cost
//
// ByRequests, each request costs one. ByTokens, package fairqueue is given what each request has used: what the holder of
// its permit reports (Charge, ReleaseUsed), or what slots cost for the time that it held one, whichever is more. So a
// client that reads slowly pays for the slot that it keeps from others, however few tokens it takes, and so does every
// request that is slower than others for another reason. The cost of a slot is what requests use per second of holding
// one, as a mean over the last 64. Time in which its client blocked a request (BlockedOnClient) does not lower it;
// otherwise slow readers would make slots cheaper for themselves, by up to a fifth. Of the requests running, four are
// charged each time that slots are handed out: each of them a few times while it runs, without a timer, and at a cost
// that does not grow with how many there are.
//
// # Refusals
//
// A refusal is typed ([Reason]) and carries the expected wait and Retry-After, all computed under the same mutex. While
// an account is at a cap below the pool's slots, its requests that may not wait, or not any longer, are refused with
// AccountLimit, whichever bound of the queue or of time they met: that cap decides when they are served, and slots may be
// free for others.
//
// # Expected wait
//
// The drain rate is how many permits are released per second when all slots are taken: slots over mean time held (Little's
// law, J. Little 1961, applied to the slots). The mean is that of the first 64 completions and exponentially weighted
// with 1/64 from there on, and is used from 16 completions on. So the rate follows at once when slots come or go, needs no
// period of overload to be measured in, and is wrong only while times change. While all slots are taken, the rate is at most
// max(slots, 3) / silence, where the silence began with the last release, or when all slots were taken if that is later. This
// bounds the promised rate when engines hang, without mistaking a batch of requests that started together for a hang.
//
// A permit that is released because its client has left (Permit.Abandoned) frees a slot only if the engine lives. It counts as a
// completion once the engine has given a sign of life afterwards, and not at all if the engine is found doubtful before
// ([Pool.ReportLife]). Slots of doubtful endpoints do not count in the rate while the pool has others.
//
// The expected wait of a newcomer is (requests ahead of it + 1) / rate; only those are ahead of it that its account's fair
// share puts first. Where its account is at a cap, it waits for permits of that account, at the rate at which these are
// released: by how long the account's own requests hold their slots. A waiting request can report its progress
// (Request.Progress): its position among those to be served next, by what is likely and not by the most that can go
// first, and the wait by the same rate. Its own goroutine computes that, once a second.
//
// A request that only some endpoints may serve (Request.Excluded), such as one for an adapter, leaves through the slots of these: what is ahead
// of it drains at the pool's rate, but what only the same endpoints may serve at the rate of their slots, and whichever takes longer comes
// before its own turn there. Retry-After is computed likewise, from the pending retries of requests that the same endpoints may serve.
//
// # Retry-After
//
// Retry-After is (requests ahead + pending retries ahead) / rate, where pending retries are the clients that were
// refused and are not due back yet: so clients that are refused one after the other come back one after the other. It is
// from 1 s to 32 s, and up to a quarter longer than computed, never shorter, so that clients with the same answer do not
// come back together. Pending retries are counted by account, and limited by its share like waiting requests: an account
// that ignores Retry-After delays only itself. A client that was refused by several pools comes back once: each pool
// counts it with the probability that it comes there (Request.ReturnProbability), and all give it the same jitter
// (Request.JitterFraction).
//
// No request is refused because of a rate that is not well known, but every refusal needs a Retry-After. So for
// Retry-After alone, the mean hold is estimated until each slot has been released four times, and at least 16 have: at
// first from the queue's bounds, as the hold with which a full queue is served just within MaxWait, and as slots are
// released, from all time held over completions. An estimate can be far off, and a client that comes too soon is refused
// again. So the jitter is wider then, up to three and a quarter times what was computed, and narrows as the estimate
// improves. If an idle pool gets a burst with a backlog under 32 s, and permits are then held for half to twice as long as
// estimated from the queue's bounds, at least four of five refused clients are admitted when they come back
// (TestObedientClientsAreAdmittedByANewPool).
package permits
