// Package permits decides who may run now, and on which endpoint. A Pool has the slots of its endpoints and the requests
// that wait for one; a Permit is the right to use one slot, from the grant to Release.
//
// # One lock
//
// One mutex guards slots and waiters together, so admission and the choice of the endpoint are one decision, and this
// holds whenever the mutex is free:
//
//	no request waits beside a free slot that it could use.
//
// "Could use" means: its account is below its caps, the endpoint is not one to avoid, its client is still there and its
// time has not run out. Two rules follow. Whatever makes a slot free, or makes a request able to use one, hands the slot
// over before it lets go of the mutex: the waiter that is woken has its permit already and competes with nobody. And a
// newcomer that finds a slot free may take it, because nobody who waits could; it overtakes nobody. The state of an
// endpoint changes only under the mutex and never by the mere passing of time: a mark "full" ends when its timer says
// so, and the timer hands the slots over like everybody else.
//
// A request that is granted its permit at the moment when its client leaves gives it back at once, unused and uncharged,
// and Acquire returns the context's cause: a permit never leaves Acquire without somebody to release it.
//
// The model for this is semaphore.Weighted of golang.org/x/sync. Who is next is decided by package fairqueue. A permit
// that is granted on arrival allocates nothing; a request that waits costs its goroutine and about 700 bytes. The whole of a
// request with a small body that waits, its connections and their buffers, takes 42 KiB in a colo server and 60 in
// an entry, and may take 48 and 64 (TestMemoryOfWaiters in test/promises/capacity).
//
// # What is held stays held
//
// Permits are counted against the ID of their endpoint until they are released, whatever becomes of the endpoint
// meanwhile: made smaller, unusable, removed, or removed and added again. New permits are granted only while fewer than
// its concurrency are held.
//
// # What requests cost
//
// ByRequests, each counts as one. ByTokens, package fairqueue is told what each has used: what its holder says (Charge,
// ReleaseUsed), or what slots are worth in the time that it held one, whichever is more. So who reads slowly pays for
// the slot that it keeps from others, however few tokens it takes, and so does whoever is slower than others for
// another reason; a slot is worth what requests use per second, in the mean of the last 64. That a client has held one up
// (HeldUp) does not lower it, or slow readers would make slots cheaper for themselves, by up to a fifth. Of requests that
// run, four are looked at each time that slots are handed out: all of them a few times in the time that one takes, none
// of it under a timer, and at a cost that does not grow with how many there are.
//
// # Expected wait and Retry-After
//
// The drain rate is what comes free per second when all slots are taken: slots over mean time held (Little's law, J.
// Little 1961, applied to the slots). The mean is that of the first 64 completions and exponentially weighted with 1/64
// from there on, and is used from 16 completions on. It follows at once when slots come or go, needs no period of
// overload to be measured in, and errs only while times change. When nothing has come free for as long as a permit is
// held, the rate is what that silence allows, slots over its length: engines that hang are not promised to anybody, and
// slots that are all taken and left at once are not taken for such. (With fewer than three slots, 3 over its length.)
// The expected wait of a newcomer is (requests ahead of it + 1) / rate; only those are ahead of it that its account's
// fair share lets go before. A request that waits may ask to be told how (Request.Progress): which it is of those to be
// served next, by what is likely and not by the most that may go ahead of it, and that over the same rate. Its own
// goroutine looks, once a second; the others have no part in it.
//
// Retry-After is (requests ahead + told to come back before it, and not yet due) / rate, so that those who are turned
// away one after the other come back one after the other; from 1 s to 32 s, and up to a quarter later than computed,
// never sooner, so that those who get the same answer do not come back together. Who was told to come back is counted
// by account, and limited by its share like those who wait: an account that does not obey puts off nobody but itself.
// One who was refused by several pools comes back once: each counts it by the chance that it comes there
// (Request.Chance), and it is as lucky with the jitter in all of them (Request.Luck).
//
// Nobody is refused for a rate that is not known well, but all who are refused must be told something. So for
// Retry-After, and for that alone, the mean is guessed until each slot has come free four times, and at least 16 have:
// at first from what the queue's bounds say of it, the hold with which a full queue is served just within MaxWait, and
// as slots come free, from all time held over completions. A guess can be wrong by far, and whoever comes too soon is
// refused again. So the jitter is wider then, up to three and a quarter times what was computed, less and less
// as the guess gets better. With that, of a burst to a pool that nobody has asked before, whose backlog is under 32 s,
// at least four of five are admitted when they come back if holds are half to twice what the bounds say
// (TestWhoObeysIsAdmittedFromTheFirst).
package permits
