package entry

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// dayBuckets is the number of spans of time by which a day is counted.
const dayBuckets = 48

// dayCounters counts what happens on a day. It holds whole numbers only, so their order does not matter.
type dayCounters struct {
	mu       sync.Mutex // guards the fields below
	buckets  [dayBuckets]dayCounts
	regions  []dayCounts // of clients, by entry
	attempts []int       // at engines, by entry
	added    []int32     // added latencies of all requests that were served, in ms
	faults   []string    // rules that were broken
}

// dayCounts are counts of one span of time, or of one region.
type dayCounts struct {
	clients, served, gaveUp, cut int // clients, by their end

	requests, answered, refused, failed int // each time that a client sends its request
	asked                               int // colos that got a request

	// Sums over the requests that were answered: the time from arrival to the first byte, without that of the engine.
	added   time.Duration
	network time.Duration // the round trip between the entry and the colo that has served the request
	waited  time.Duration // in queues

	coloBytes int64 // sent between colos
}

func (n *dayCounts) add(m dayCounts) {
	n.clients, n.served, n.gaveUp, n.cut = n.clients+m.clients, n.served+m.served, n.gaveUp+m.gaveUp, n.cut+m.cut
	n.requests, n.answered, n.refused, n.failed = n.requests+m.requests, n.answered+m.answered, n.refused+m.refused, n.failed+m.failed
	n.asked += m.asked
	n.added, n.network, n.waited = n.added+m.added, n.network+m.network, n.waited+m.waited
	n.coloBytes += m.coloBytes
}

func newDayCounters(entries int) *dayCounters {
	return &dayCounters{regions: make([]dayCounts, entries), attempts: make([]int, entries)}
}

// count adds counts to a region, and to the span of time around an hour.
func (l *dayCounters) count(region int, hour float64, n dayCounts) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.regions[region].add(n)
	l.buckets[min(int(hour*dayBuckets/24), dayBuckets-1)].add(n)
}

// noteAdded notes the added latency of one request.
func (l *dayCounters) noteAdded(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.added = append(l.added, int32(min(d.Milliseconds(), math.MaxInt32)))
}

// attempted notes an attempt at an engine.
func (l *dayCounters) attempted(region int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts[region]++
}

// fault notes that a rule was broken.
func (l *dayCounters) fault(format string, arguments ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) < 10 {
		l.faults = append(l.faults, fmt.Sprintf(format, arguments...))
	}
}

// dayResult is what is known after a day.
type dayResult struct {
	variant          dayVariant
	schedule         daySchedule
	slots, lostSlots int // lostSlots are those of the region that is lost
	total            dayCounts
	buckets          [dayBuckets]dayCounts
	regions          []dayCounts
	attempts         []int
	median, p99      time.Duration // of the added latency
	faults           []string
}

func (d *day) result() *dayResult {
	l := d.counters
	r := &dayResult{variant: d.dayVariant, schedule: d.schedule, buckets: l.buckets, regions: l.regions, attempts: l.attempts, faults: l.faults}
	for _, c := range d.colos {
		r.slots += c.endpoints * dayConcurrency
		if c.region == dayLostRegion {
			r.lostSlots += c.endpoints * dayConcurrency
		}
	}
	for _, n := range l.regions {
		r.total.add(n)
	}
	slices.Sort(l.added)
	if len(l.added) > 0 {
		r.median = time.Duration(l.added[len(l.added)/2]) * time.Millisecond
		r.p99 = time.Duration(l.added[len(l.added)*99/100]) * time.Millisecond
	}
	return r
}

// per returns a mean, or 0 of nothing.
func per[N int | int64 | time.Duration](sum N, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// fairness returns Jain's index of the shares of clients that were served, by region (R. Jain, D. Chiu and W. Hawe, "A quantitative measure
// of fairness and discrimination", 1984), and the least share. An index of 1 means that all regions have the same share.
func (r *dayResult) fairness() (jain, least float64) {
	var sum, squares float64
	least = 1
	for _, n := range r.regions {
		share := per(n.served, n.clients)
		sum, squares, least = sum+share, squares+share*share, min(least, share)
	}
	return sum * sum / squares / float64(len(r.regions)), least
}
