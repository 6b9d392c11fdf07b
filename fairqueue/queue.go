package fairqueue

import (
	"iter"
	"math"
	"time"
)

// Queue holds waiting items. It is not safe for concurrent use.
type Queue struct {
	config   Config
	share    int // MaxShare in items; 0: no cap
	accounts map[string]*account
	latest   *account // of accounts, by the last lookup; nil: not known
	mapPeak  int      // most accounts since their map was made
	idle     idleList
	bands    [bandCount]band
	held     [boundCount]int64 // by all items
	epoch    time.Time         // when the first item arrived; ages are counted from it
	seq      int64             // of the last item pushed
	served   uint64            // items that Next returned
	learned  learned           // of all accounts
	skipped  []*flow           // used by pick only; kept to reuse its memory
}

// band is the order of the flows of one priority.
type band struct {
	v    float64 // V
	maxS float64 // the greatest S that any flow has had

	waiting int     // items
	cost    float64 // their estimates
	running int
	flows   int     // with something waiting
	weight  float64 // of their accounts

	order heap             // backlogged flows, by orderKey, or under FIFO by ageKey
	ages  heap             // backlogged flows, by ageKey
	held  [boundCount]heap // flows with something waiting, by roomKey
}

// New returns an empty queue.
func New(c Config) *Queue {
	q := &Queue{accounts: map[string]*account{}}
	for i := range q.bands {
		b := &q.bands[i]
		b.order = heap{place: inOrder, key: orderKey}
		b.ages = heap{place: inAges, key: ageKey}
		b.held[requests] = heap{place: inRequests, key: roomKey(requests)}
		b.held[bytes] = heap{place: inBytes, key: roomKey(bytes)}
	}
	q.Configure(c)
	return q
}

// Configure changes bounds and order. It evicts nothing.
func (q *Queue) Configure(c Config) {
	if q.config == c {
		return
	}
	was := q.config
	q.config = c
	share := 0
	if c.MaxShare > 0 && c.MaxShare < 1 {
		share = max(1, int(c.MaxShare*float64(c.Slots)+1e-9)) // 0.29 of 100 is 29
	}
	if was.Learn == c.Learn && was.Discipline == c.Discipline {
		q.setShare(share) // not all of what follows: slots may change with every answer, and there may be thousands of accounts
		return
	}
	q.share = share
	if was.Learn != c.Learn {
		q.forgetEstimates()
	}
	q.resetVirtualTime()
	for i := range q.bands {
		order := &q.bands[i].order
		order.key = orderKey
		if c.Discipline == FIFO {
			order.key = ageKey
		}
		order.reorder()
	}
	for _, a := range q.accounts {
		q.reindex(a)
	}
}

// setShare changes the share, and reindexes the accounts that reach their cap by it or leave it.
func (q *Queue) setShare(share int) {
	before := q.share
	if share == before {
		return
	}
	for _, a := range q.accounts {
		q.share = before
		was := q.atCap(a)
		if q.share = share; q.atCap(a) != was {
			q.reindex(a)
		}
	}
	q.share = share
}

// Push adds it, or returns ErrFull or ErrAccountFull. The victims were evicted to make room for it: they are out of the
// queue already, and the caller answers them.
func (q *Queue) Push(it *Item) (victims []*Item, err error) {
	if it.flow != nil {
		panic("fairqueue: Push of an item that is in a queue")
	}
	it.clamp()
	it.Bytes = max(it.Bytes, 0)
	a := q.lookup(&it.Claim)
	if q.config.PerAccount <= 0 || a != nil && a.held[requests] >= int64(q.config.PerAccount) {
		return nil, ErrAccountFull
	}
	q.number(it, +1)
	victims, ok := q.makeRoom(it, a)
	if !ok {
		return nil, ErrFull
	}
	for _, v := range victims {
		q.Remove(v)
	}
	q.join(it)
	return victims, nil
}

// Rejoin adds a request that was served before and has to be served again, or that waited in another queue. Its arrival puts
// it ahead of everything of its flow that came later. It is never refused, so what waits can exceed the bounds, by as many
// items as were running or waited elsewhere.
func (q *Queue) Rejoin(it *Item) {
	if it.flow != nil {
		panic("fairqueue: Rejoin of an item that is in a queue")
	}
	it.clamp()
	it.Bytes = max(it.Bytes, 0)
	q.number(it, -1) // ahead of those that arrived at the same time
	q.join(it)
}

// number gives it its place in time, behind those that arrived at the same time or, with sign -1, ahead of them.
func (q *Queue) number(it *Item, sign int64) {
	if q.seq == 0 {
		q.epoch = it.Arrived
	}
	q.seq++
	it.age, it.seq = int64(it.Arrived.Sub(q.epoch)), sign*q.seq
}

// Remove takes it out and reports whether it was in the queue. It is O(log n) in the accounts waiting.
func (q *Queue) Remove(it *Item) bool {
	if it.flow == nil {
		return false
	}
	a := it.flow.account
	q.leave(it)
	q.reindex(a)
	q.retire(a)
	return true
}

func (q *Queue) join(it *Item) {
	a := q.account(&it.Claim)
	q.idle.remove(a)
	f := &a.flows[it.Band]
	b := f.band
	if f.waiting == 0 {
		b.flows++
		b.weight += a.weight
	}
	it.flow = f
	f.insert(it)
	f.waiting++
	q.setEstimate(it, a)
	f.cost += it.cost
	b.waiting++
	b.cost += it.cost
	for i := range q.held {
		a.held[i] += it.size(bound(i))
		q.held[i] += it.size(bound(i))
	}
	q.reindex(a)
}

// leave undoes join; the caller reindexes the account.
func (q *Queue) leave(it *Item) {
	f := it.flow
	a, b := f.account, f.band
	it.flow = nil
	f.unlink(it)
	f.waiting--
	f.cost -= it.cost
	b.waiting--
	b.cost -= it.cost
	for i := range q.held {
		a.held[i] -= it.size(bound(i))
		q.held[i] -= it.size(bound(i))
	}
	if f.waiting == 0 {
		f.cost = 0 // or rounding errors would accumulate
		b.flows--
		b.weight -= a.weight
	}
	if b.waiting == 0 {
		b.cost, b.weight = 0, 0
	}
	b.endIfIdle()
}

// endIfIdle ends a busy period: with nothing waiting or running, no account is ahead of another.
func (b *band) endIfIdle() {
	if b.waiting == 0 && b.running == 0 {
		b.v = b.maxS
	}
}

// UpdateAccount gives c's account the weight and the cap of c, as Push and Start do. A caller with free slots calls Next
// after it: with a higher cap, an item that waits may be served.
func (q *Queue) UpdateAccount(c Claim) {
	c.clamp()
	q.lookup(&c)
}

// Len returns the number of items waiting.
func (q *Queue) Len() int { return int(q.held[requests]) }

// Running returns the number of requests that were started and have not finished.
func (q *Queue) Running() int {
	n := 0
	for i := range q.bands {
		n += q.bands[i].running
	}
	return n
}

// AtCap reports whether the account of an item that waits runs as many requests as it may.
func (q *Queue) AtCap(it *Item) bool { return q.atCap(it.flow.account) }

// Bytes returns how many bytes the items waiting hold.
func (q *Queue) Bytes() int64 { return q.held[bytes] }

// Items yields all items waiting, in no order. The queue must not change meanwhile.
func (q *Queue) Items() iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		for _, a := range q.accounts {
			for i := range a.flows {
				for it := a.flows[i].head; it != nil; it = it.next {
					if !yield(it) {
						return
					}
				}
			}
		}
	}
}

// forgetEstimates drops what was learned in another unit.
func (q *Queue) forgetEstimates() {
	q.learned = learned{}
	for _, a := range q.accounts {
		a.learned = learned{}
	}
}

// resetVirtualTime puts all flows at 0 and estimates all items anew: costs have another unit from now on, or start tags
// are from a time under FIFO, which does not follow them.
func (q *Queue) resetVirtualTime() {
	for i := range q.bands {
		b := &q.bands[i]
		b.v, b.maxS, b.cost = 0, 0, 0
	}
	for _, a := range q.accounts {
		for i := range a.flows {
			f := &a.flows[i]
			f.s, f.refundFloor, f.fresh, f.cost = 0, 0, true, 0
			for it := f.head; it != nil; it = it.next {
				q.setEstimate(it, a)
				f.cost += it.cost
				f.band.cost += it.cost
			}
		}
	}
}

// Bounds of what one request is charged.
const (
	minCost = 1e-6
	maxCost = 1e9
)

// clamp bounds the numbers of c, so that none makes a virtual time infinite, or so large that adding the cost of one item
// to it changes nothing.
func (c *Claim) clamp() {
	c.Weight = clampPositive(c.Weight, 1e-3, 1e6)
	c.Cost = clampPositive(c.Cost, minCost, maxCost)
	c.Outputs = clampPositive(c.Outputs, 1, maxCost)
	c.Band = min(c.Band, Batch)
}

func clampPositive(x, low, high float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return 1
	}
	return min(max(x, low), high)
}
