package fairqueue_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/fairqueue"
)

// census counts in the model what Census says of the queue.
func (m *model) census(most int) fairqueue.Census {
	var c fairqueue.Census
	oldest := func(items []*fairqueue.Item) (at time.Time) {
		for _, it := range items {
			if at.IsZero() || it.Arrived.Before(at) {
				at = it.Arrived
			}
		}
		return at
	}
	for b := range m.bands {
		var all []*fairqueue.Item
		for name, a := range m.accounts {
			items := m.items(name, fairqueue.Band(b))
			all = append(all, items...)
			c.Bands[b].Running += a.flows[b].running
			c.Bands[b].Accounts += min(1, len(items))
		}
		c.Bands[b].Waiting, c.Bands[b].Oldest, c.Bands[b].V = len(all), oldest(all), m.bands[b].v
	}
	for name, a := range m.accounts {
		if m.count(name)+a.running() == 0 {
			continue
		}
		one := fairqueue.AccountCensus{Account: name, Weight: a.weight, AtLimit: m.atLimit(fairqueue.Claim{Account: name, Concurrent: a.concurrent})}
		if limit := m.limit(a.concurrent); limit < math.MaxInt {
			one.Runs = limit
		}
		var all []*fairqueue.Item
		for b, f := range a.flows {
			items := m.items(name, fairqueue.Band(b))
			all = append(all, items...)
			one.Bands[b] = fairqueue.FlowCensus{Waiting: len(items), Running: f.running, Ahead: math.Max(0, f.s-m.floor(fairqueue.Band(b)))}
		}
		one.Bytes, one.Oldest = m.held(all, true), oldest(all)
		c.Accounts = append(c.Accounts, one)
	}
	share := func(a fairqueue.AccountCensus) (n int) {
		for _, f := range a.Bands {
			n += f.Waiting + f.Running
		}
		return n
	}
	slices.SortFunc(c.Accounts, func(x, y fairqueue.AccountCensus) int {
		if d := share(y) - share(x); d != 0 {
			return d
		}
		return strings.Compare(x.Account, y.Account)
	})
	if c.Others = len(c.Accounts) - most; c.Others <= 0 {
		c.Others = 0
		return c
	}
	c.Accounts = c.Accounts[:most]
	return c
}

// rounded leaves nothing of virtual times that comes from the order in which they were added up, and of no accounts one kind.
func rounded(c fairqueue.Census) fairqueue.Census {
	round := func(x *float64) { *x = math.Round(*x*1e6) / 1e6 }
	for i := range c.Bands {
		round(&c.Bands[i].V)
	}
	for i := range c.Accounts {
		c.Accounts[i].Output = 0 // see TestCensus
		for j := range c.Accounts[i].Bands {
			round(&c.Accounts[i].Bands[j].Ahead)
		}
	}
	if len(c.Accounts) == 0 {
		c.Accounts = nil
	}
	return c
}

func (p *pair) compareCensus(most int) {
	got, want := rounded(p.queue.Census(most, nil)), rounded(p.model.census(most))
	if !reflect.DeepEqual(got, want) {
		p.fail("Census(%d) is\n%+v, want\n%+v", most, got, want)
	}
}

// Who runs and waits most is named first, whatever band it is in.
func TestCensus(t *testing.T) {
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
		run, ok := q.Start(fairqueue.Claim{Account: "runs", Cost: 3})
		if !ok {
			t.Fatal("it may not run")
		}
		if i == 0 {
			q.Learn(run, fairqueue.Estimate{Input: 3, Output: 40})
			q.Finish(run, 43)
		}
	}
	var names []string
	c := q.Census(3, nil)
	for _, a := range c.Accounts {
		names = append(names, a.Account)
	}
	if got := fmt.Sprint(names, c.Others); got != "[mixed many runs] 1" {
		t.Errorf("got %s", got)
	}
	mixed, runs := c.Accounts[0], c.Accounts[2]
	if mixed.Oldest != time.Unix(1002, 0) || mixed.Bytes != 50 || mixed.Bands[fairqueue.Batch].Waiting != 3 || mixed.AtLimit || mixed.Runs != 2 {
		t.Errorf("got %+v", mixed)
	}
	if !runs.AtLimit || runs.Bands[0].Running != 2 || runs.Bands[0].Ahead != 3*43 || runs.Output != 40 || !runs.Oldest.IsZero() {
		t.Errorf("got %+v", runs)
	}
	if b := c.Bands[fairqueue.Batch]; b.Waiting != 7 || b.Accounts != 2 || b.Oldest != time.Unix(1004, 0) {
		t.Errorf("got %+v", b)
	}
}

// While a census pauses, the queue may change in every way.
func TestCensusWhileTheQueueChanges(t *testing.T) {
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
	pauses := 0
	c := q.Census(50, func() {
		pauses++
		for _, it := range waiting[:300] {
			q.Remove(it)
		}
		waiting = waiting[300:]
		push(100)
	})
	if err := q.Check(); err != nil {
		t.Error(err)
	}
	if pauses < 5 || len(c.Accounts) == 0 || c.Bands[0].Waiting != q.Len() || c.Bands[0].Oldest.IsZero() {
		t.Errorf("after %d pauses, with %d waiting: %+v", pauses, q.Len(), c)
	}
	for _, a := range c.Accounts {
		if n := q.LenOf(a.Account); n != 1 || a.Bands[0].Waiting != n || a.Oldest.IsZero() {
			t.Errorf("%d of %+v wait", n, a)
		}
	}
	if c = q.Census(50, func() {
		for _, it := range waiting {
			q.Remove(it)
		}
		waiting = nil
	}); len(c.Accounts) != 0 || !c.Bands[0].Oldest.IsZero() {
		t.Errorf("all have left: %+v", c)
	}
}

// What a debug page costs everybody who asks for a permit meanwhile.
func BenchmarkCensus(b *testing.B) {
	for _, accounts := range []int{100, 10_000} {
		for _, most := range []int{10, 1000} {
			b.Run(fmt.Sprintf("accounts=%d/most=%d", accounts, most), func(b *testing.B) {
				q := fairqueue.New(roomy)
				for _, it := range items(2*accounts, accounts) {
					if _, err := q.Push(it); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				pieces := 0
				for b.Loop() {
					pieces++
					q.Census(most, func() { pieces++ })
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(pieces), "ns/piece")
			})
		}
	}
}
