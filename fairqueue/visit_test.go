package fairqueue_test

import (
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"colonnade/fairqueue"
)

// seen is all that can be read of an account.
type seen struct {
	weight           float64
	cap              int
	atLimit          bool
	waiting, running int
	bytes            int64
	flows            [3]fairqueue.FlowState
	oldest           [3]time.Time
}

// accounts reads all accounts of which something waits or runs.
func accounts(q *fairqueue.Queue) map[string]seen {
	all := map[string]seen{}
	q.Visit(func(a fairqueue.Account) {
		if a.Waiting()+a.Running() == 0 {
			return
		}
		s := seen{
			weight: a.Weight(), cap: a.Cap(), atLimit: a.AtLimit(), waiting: a.Waiting(), running: a.Running(), bytes: a.Bytes(),
		}
		for b := range s.flows {
			s.flows[b] = a.Flow(fairqueue.Band(b))
			s.flows[b].Lead = rounded(s.flows[b].Lead)
			s.oldest[b] = a.Oldest(fairqueue.Band(b))
		}
		all[a.Name()] = s
	})
	return all
}

// rounded leaves nothing of the order in which virtual times were added up.
func rounded(x float64) float64 { return math.Round(x*1e6) / 1e6 }

// seen counts in the model what the queue says about its accounts.
func (m *model) seen() map[string]seen {
	all := map[string]seen{}
	for name, a := range m.accounts {
		if m.count(name)+a.running() == 0 {
			continue
		}
		s := seen{
			weight: a.weight, waiting: m.count(name), running: a.running(),
			atLimit: m.atLimit(fairqueue.Claim{Account: name, Concurrent: a.concurrent}),
		}
		if limit := m.limit(a.concurrent); limit < math.MaxInt {
			s.cap = limit
		}
		for b := range a.flows {
			band := fairqueue.Band(b)
			items := m.items(name, band)
			s.flows[b] = fairqueue.FlowState{
				Waiting: len(items), Running: a.flows[b].running, Lead: rounded(math.Max(0, a.flows[b].s-m.floor(band))),
			}
			if len(items) > 0 {
				s.oldest[b] = items[0].Arrived
			}
			s.bytes += m.held(items, true)
		}
		all[name] = s
	}
	return all
}

func (m *model) band(b fairqueue.Band) fairqueue.BandState {
	s := fairqueue.BandState{V: m.bands[b].v}
	for name, a := range m.accounts {
		n := len(m.items(name, b))
		s.Waiting += n
		s.Running += a.flows[b].running
		s.Accounts += min(1, n)
	}
	return s
}

func (p *pair) compareStates() {
	for b := range fairqueue.Batch + 1 {
		got, want := p.queue.Band(b), p.model.band(b)
		got.V, want.V = rounded(got.V), rounded(want.V)
		if got != want {
			p.fail("Band(%v) is %+v, want %+v", b, got, want)
		}
	}
	if got, want := accounts(p.queue), p.model.seen(); !maps.Equal(got, want) {
		p.fail("the accounts are\n%+v, want\n%+v", got, want)
	}
}

func TestVisit(t *testing.T) {
	q := fairqueue.New(fairqueue.Config{Limit: 100, PerAccount: 100, Bytes: 1 << 20, MaxShare: 0.5, Slots: 4, Learn: true})
	at := time.Unix(1000, 0)
	push := func(account string, band fairqueue.Band, n int) {
		for range n {
			at = at.Add(time.Second)
			it := &fairqueue.Item{Claim: fairqueue.Claim{Account: account, Band: band, Weight: 2}, Bytes: 10, Arrived: at}
			if _, err := q.Push(it); err != nil {
				t.Fatal(err)
			}
		}
	}
	push("few", fairqueue.Interactive, 1)
	push("mixed", fairqueue.Standard, 2)
	push("mixed", fairqueue.Batch, 3)
	push("many", fairqueue.Batch, 4)
	for i := range 3 {
		run, ok := start(q, fairqueue.Claim{Account: "runs", Cost: 3})
		if !ok {
			t.Fatal("it may not run")
		}
		if i == 0 {
			q.Learn(&run, fairqueue.Estimate{Input: 3, Output: 40})
			q.Finish(&run, 43)
		}
	}
	all := accounts(q)
	if mixed := all["mixed"]; mixed.oldest[fairqueue.Standard] != time.Unix(1002, 0) || mixed.bytes != 50 ||
		mixed.flows[fairqueue.Batch].Waiting != 3 || mixed.atLimit || mixed.cap != 2 || mixed.weight != 2 {
		t.Errorf("got %+v", mixed)
	}
	if runs := all["runs"]; !runs.atLimit || runs.flows[0].Running != 2 || runs.flows[0].Lead != 3*43 || !runs.oldest[0].IsZero() {
		t.Errorf("got %+v", runs)
	}
	if b := q.Band(fairqueue.Batch); b.Waiting != 7 || b.Accounts != 2 {
		t.Errorf("got %+v", b)
	}
	q.Visit(func(a fairqueue.Account) {
		if want := map[bool]float64{true: 40}[a.Name() == "runs"]; a.MeanOutput() != want {
			t.Errorf("outputs of %s cost %v, want %v", a.Name(), a.MeanOutput(), want)
		}
	})
}

// During a visit, the queue may change in every way.
func TestVisitWhileTheQueueChanges(t *testing.T) {
	q := fairqueue.New(roomy)
	var waiting []*fairqueue.Item
	push := func(n int) {
		for _, it := range items(n, n) {
			it.Account += fmt.Sprint("-", len(waiting))
			if _, err := q.Push(it); err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, it)
		}
	}
	push(3000)
	visited, changes := 0, 0
	var kept []fairqueue.Account
	q.Visit(func(a fairqueue.Account) {
		if visited++; visited%256 == 0 && len(waiting) > 300 {
			changes++
			for _, it := range waiting[:300] {
				q.Remove(it)
			}
			waiting = waiting[300:]
			push(100)
		}
		kept = append(kept, a)
	})
	if err := q.Check(); err != nil {
		t.Error(err)
	}
	if changes < 5 {
		t.Errorf("%d visited, with %d changes in between", visited, changes)
	}
	n := 0
	for _, a := range kept {
		n += a.Waiting()
		if lives := a.Waiting() > 0; lives != (q.LenOf(a.Name()) > 0) || lives == a.Oldest(0).IsZero() {
			t.Errorf("%d of %s wait, by the queue %d", a.Waiting(), a.Name(), q.LenOf(a.Name()))
		}
	}
	if n == 0 || n > q.Len() {
		t.Errorf("%d of the accounts visited wait, of %d in all", n, q.Len())
	}
}
