package homes_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// simulation is one history of a colo: a store, hosts, server processes, engines, and faults. Everything happens in virtual time and
// in one goroutine, so a seed gives the same history each time.
//
// The rules of package homes run as they are. The rest is a model: the store (ordered revisions, transactions, leases), watches that
// lag and are listed again, calls whose answers are lost and that take place late, processes with clocks of their own, and engines
// that count what they have in hand.
type simulation struct {
	rng    *rand.Rand
	now    time.Duration
	events eventQueue
	number int // of events so far: the order of those of one instant

	broken    rule          // the rule that is left out
	latency   time.Duration // the most that a message is under way
	slowCalls float64       // share of the calls that are carried late
	sendLater float64       // share of the requests that are sent a moment after their grant

	store     *store
	net       network
	hosts     []*host
	processes []*process // all that ever ran
	engines   []*simEngine
	pools     []string
	servers   int // at first

	restored restore // the last one of the store

	problems []string
	trace    []string
	verbose  bool
	healed   bool // no fault begins any more
	quiet    bool // no request comes any more
}

// event is one thing that happens.
type event struct {
	at     time.Duration
	number int
	do     func()
}

// eventQueue is a heap of events, the next one first.
type eventQueue []event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	if q[i].at != q[j].at {
		return q[i].at < q[j].at
	}
	return q[i].number < q[j].number
}
func (q eventQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *eventQueue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = event{}
	*q = (*q)[:last]
	return e
}

// after does something when d has passed.
func (s *simulation) after(d time.Duration, do func()) {
	s.number++
	heap.Push(&s.events, event{s.now + max(d, 0), s.number, do})
}

// runUntil lets everything happen up to that instant, or up to the first problem.
func (s *simulation) runUntil(end time.Duration) {
	for len(s.events) > 0 && s.events[0].at <= end && len(s.problems) == 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.now = max(s.now, end)
}

// between draws a duration.
func (s *simulation) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rng.Int64N(int64(most-least)+1))
}

// likely draws whether something of this probability happens.
func (s *simulation) likely(p float64) bool { return s.rng.Float64() < p }

// pick draws one of a list, which is not empty.
func pick[T any](s *simulation, list []T) T { return list[s.rng.IntN(len(list))] }

// hopTime draws how long a message is under way.
func (s *simulation) hopTime() time.Duration { return s.between(s.latency/2, s.latency) }

// tracef notes what happened, for the report of a failure.
func (s *simulation) tracef(format string, args ...any) {
	if s.verbose {
		s.trace = append(s.trace, fmt.Sprintf("%9.3f  ", s.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// problemf notes that a promise does not hold. The history ends there.
func (s *simulation) problemf(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf("at %.3f s: ", s.now.Seconds())+fmt.Sprintf(format, args...))
	s.tracef("PROBLEM: "+format, args...)
}

// report returns what went wrong, and the last lines of what happened before.
func (s *simulation) report() string {
	lines := s.trace[max(0, len(s.trace)-400):]
	return strings.Join(slices.Concat(s.problems, lines), "\n")
}
