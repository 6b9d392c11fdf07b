package permits_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"colonnade/balance"
	"colonnade/permits"
)

// model is a pool as its documentation tells it, and nothing more: lists and linear scans, with discipline FIFO and all
// weights 1, which package fairqueue tests by itself.
type model struct {
	c           permits.Config
	now         time.Time
	order       []*modelEndpoint
	turn        int
	held        map[string]int // by endpoint, whether it is of the pool or not
	running     map[string]int // by account
	waiting     []*modelRequest
	completions int
	closed      bool
	draining    bool
	away        bool // another server is the home
	epoch       uint64
}

type modelEndpoint struct {
	permits.Endpoint
	usable    bool
	fullUntil time.Time
}

type modelRequest struct {
	permits.Request
	until    time.Time
	late     permits.Reason // unless its account is at its cap then
	endpoint string         // granted
	held     int            // there, with it
	epoch    uint64         // of the grant
	waited   bool           // it had a place in the queue
	standIn  bool           // it waits only since the home did not answer
	reason   permits.Reason // refused
	gone     bool
}

func (m *model) acquire(q *modelRequest) {
	deadline := !q.Deadline.IsZero()
	q.waited = q.Rejoin
	q.until, q.late = m.now.Add(min(q.MaxWait, m.c.MaxWait)), permits.QueueTimeout
	if deadline && q.Deadline.Before(q.until) {
		q.until, q.late = q.Deadline, permits.Deadline
	}
	switch e := m.choose(q); {
	case m.away && !q.StandIn:
		q.reason = permits.Moved
	case m.draining:
		q.reason = permits.Draining
	case m.closed && (e == nil || deadline && !m.now.Before(q.Deadline)):
		q.reason = permits.Draining
	case deadline && !m.now.Before(q.Deadline):
		q.reason = permits.Deadline
	case e != nil:
		m.grant(q, e)
	case !m.hasEndpoint(q):
		q.reason = permits.NoEndpoint
	case !m.now.Before(q.until):
		m.refuseWait(q, permits.Busy)
	case q.Rejoin:
		m.wait(q)
	case m.count(q.Account) >= m.c.PerAccount:
		m.refuseWait(q, permits.AccountQueueFull)
	default:
		m.push(q)
	}
}

func (m *model) push(q *modelRequest) {
	left := slices.Clone(m.waiting)
	var victims []*modelRequest
	for len(left)+1 > max(m.c.Limit, len(m.waiting)) {
		count := map[string]int{}
		for _, w := range left {
			count[w.Account]++
		}
		var victim *modelRequest
		for _, w := range left {
			if w.Band >= q.Band && (victim == nil || count[w.Account] > count[victim.Account] ||
				count[w.Account] == count[victim.Account] && w.Arrived.After(victim.Arrived)) {
				victim = w
			}
		}
		if victim == nil || m.c.Limit < 1 || count[victim.Account] <= count[q.Account]+1 {
			m.refuseWait(q, permits.QueueFull)
			return
		}
		victims = append(victims, victim)
		left = slices.DeleteFunc(left, func(w *modelRequest) bool { return w == victim })
	}
	for _, v := range victims {
		m.refuseWait(v, permits.QueueFull)
	}
	m.waiting = left
	m.wait(q)
}

func (m *model) wait(q *modelRequest) {
	q.waited, q.standIn = true, m.away
	m.waiting = append(m.waiting, q)
}

// refuseWait refuses q for want of room or time to wait, or for its account's cap, while that is reached.
func (m *model) refuseWait(q *modelRequest, bound permits.Reason) {
	q.reason = bound
	if limit := m.cap(q); m.running[q.Account] >= limit && limit < m.slots() {
		q.reason = permits.AccountLimit
	}
}

// cap is how many permits q's account may hold at once.
func (m *model) cap(q *modelRequest) int {
	limit := math.MaxInt
	if q.Concurrent > 0 {
		limit = q.Concurrent
	}
	if m.c.MaxShare < 1 {
		limit = min(limit, max(1, int(m.c.MaxShare*float64(m.slots()))))
	}
	return limit
}

func (m *model) slots() int { return m.load().Limit }

// choose returns the endpoint that q would get now.
func (m *model) choose(q *modelRequest) *modelEndpoint {
	if m.running[q.Account] >= m.cap(q) {
		return nil
	}
	var best *modelEndpoint
	for i := range m.order {
		e := m.order[(m.turn+i)%len(m.order)]
		if m.free(e) == 0 || slices.Contains(q.Avoid, e.ID) || q.Excluded.Has(e.ID) {
			continue
		}
		load := func(e *modelEndpoint) float64 {
			return float64(e.Taken+m.held[e.ID]+1) / float64(e.Concurrency*max(1, e.Weight))
		}
		if best == nil || m.c.Balance.Policy == balance.LeastLoaded && load(e) < load(best) {
			best = e
		}
	}
	return best
}

func (m *model) free(e *modelEndpoint) int {
	if !e.usable || e.Withheld || e.Draining || m.now.Before(e.fullUntil) {
		return 0
	}
	return max(0, e.Concurrency-min(e.Taken, e.Concurrency)-m.held[e.ID])
}

func (m *model) hasEndpoint(q *modelRequest) bool {
	return slices.ContainsFunc(m.order, func(e *modelEndpoint) bool {
		return e.usable && e.Concurrency > 0 && !e.Draining && !slices.Contains(q.Avoid, e.ID) && !q.Excluded.Has(e.ID)
	})
}

func (m *model) grant(q *modelRequest, e *modelEndpoint) {
	q.endpoint, q.epoch = e.ID, m.epoch
	m.held[e.ID]++
	q.held = e.Taken + m.held[e.ID]
	m.running[q.Account]++
	m.turn = slices.Index(m.order, e) + 1
}

func (m *model) release(q *modelRequest) {
	m.held[q.endpoint]--
	m.running[q.Account]--
	m.completions++
	m.dispatch()
}

// dispatch grants by band, then by arrival, what can be granted.
func (m *model) dispatch() {
	slices.SortFunc(m.waiting, func(a, b *modelRequest) int {
		if a.Band != b.Band {
			return int(a.Band) - int(b.Band)
		}
		return a.Arrived.Compare(b.Arrived)
	})
	for i := 0; i < len(m.waiting); i++ {
		q := m.waiting[i]
		if e := m.choose(q); e != nil && m.now.Before(q.until) {
			m.grant(q, e)
			m.waiting = slices.Delete(m.waiting, i, i+1)
			i = -1 // from the start
		}
	}
}

func (m *model) cancel(q *modelRequest) {
	q.gone = true
	m.drop(q)
}

func (m *model) drop(q *modelRequest) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w *modelRequest) bool { return w == q })
}

func (m *model) setHome(home bool) {
	if home {
		for _, q := range m.waiting {
			q.standIn = false
		}
	} else if !m.away {
		m.move(func(*modelRequest) bool { return true })
	}
	m.away = !home
}

// move refuses waiters that are to wait elsewhere.
func (m *model) move(which func(*modelRequest) bool) {
	for _, q := range slices.Clone(m.waiting) {
		if which(q) {
			q.reason = permits.Moved
			m.drop(q)
		}
	}
}

// standIns is how many wait only since the home did not answer.
func (m *model) standIns() (n int) {
	for _, q := range m.waiting {
		if q.standIn {
			n++
		}
	}
	return n
}

// adjust follows a change of endpoints.
func (m *model) adjust() {
	for _, q := range slices.Clone(m.waiting) {
		if !m.hasEndpoint(q) {
			q.reason = permits.NoEndpoint
			m.drop(q)
		}
	}
	m.dispatch()
}

func (m *model) setEndpoints(es []permits.Endpoint) {
	old := m.order
	m.order = nil
	for _, want := range es {
		e := &modelEndpoint{usable: true}
		if i := slices.IndexFunc(old, func(e *modelEndpoint) bool { return e.ID == want.ID }); i >= 0 {
			e = old[i]
		}
		e.Endpoint = want
		m.order = append(m.order, e)
	}
	m.turn = min(m.turn, len(m.order))
	m.adjust()
}

func (m *model) resize(id string, n int) {
	for _, e := range m.order {
		if e.ID == id && e.Concurrency != n {
			e.Concurrency = n
			m.adjust()
		}
	}
}

func (m *model) drain() {
	m.draining = true
	m.closeQueue()
}

func (m *model) closeQueue() {
	m.closed = true
	for _, q := range m.waiting {
		q.reason = permits.Draining
	}
	m.waiting = nil
}

// advance lets time pass, one event after the other. No two events are at the same time.
func (m *model) advance(d time.Duration) {
	for end := m.now.Add(d); m.now.Before(end); {
		next := end
		for _, q := range m.waiting {
			if q.until.Before(next) {
				next = q.until
			}
		}
		for _, e := range m.order {
			if e.fullUntil.After(m.now) && e.fullUntil.Before(next) {
				next = e.fullUntil
			}
		}
		m.now = next
		for _, q := range slices.Clone(m.waiting) {
			if !m.now.Before(q.until) {
				m.refuseWait(q, q.late)
				m.drop(q)
			}
		}
		m.dispatch()
	}
}

func (m *model) count(account string) (n int) {
	for _, q := range m.waiting {
		if q.Account == account {
			n++
		}
	}
	return n
}

// users is what usersOf writes of the pool.
func (m *model) users(most int) string {
	total := map[string]int{}
	for account, n := range m.running {
		total[account] += n
	}
	for _, q := range m.waiting {
		total[q.Account]++
	}
	maps.DeleteFunc(total, func(_ string, n int) bool { return n == 0 })
	names := slices.SortedFunc(maps.Keys(total), func(a, b string) int {
		return cmp.Or(total[b]-total[a], strings.Compare(a, b))
	})
	named := names[:min(most, len(names))]
	var texts []string
	for _, name := range named {
		texts = append(texts, fmt.Sprintf("%s: %d+%d", name, m.running[name], m.count(name)))
	}
	return fmt.Sprint(texts, len(names)-len(named))
}

func (m *model) load() permits.Load {
	var l permits.Load
	for _, e := range m.order {
		if e.usable && !e.Withheld && !e.Draining {
			l.Limit += e.Concurrency
		}
		l.Free += m.free(e)
	}
	for _, n := range m.held {
		l.Held += n
	}
	l.Queued = len(m.waiting)
	return l
}
