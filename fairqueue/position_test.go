package fairqueue_test

import (
	"fmt"
	"testing"
	"time"

	"colonnade/fairqueue"
)

// line is a queue whose items arrive a second apart.
type line struct {
	*fairqueue.Queue
	t     *testing.T
	began time.Time
	n     int
}

func newLine(t *testing.T, d fairqueue.Discipline, c fairqueue.Config) *line {
	c.Discipline, c.Limit, c.PerAccount, c.Bytes = d, 1000, 1000, 1<<20
	return &line{Queue: fairqueue.New(c), t: t, began: time.Unix(1e9, 0)}
}

// join pushes an item, and expects AheadOf it to be at most Ahead before it was pushed.
func (l *line) join(account string, b fairqueue.Band) *fairqueue.Item {
	l.t.Helper()
	c := fairqueue.Claim{Account: account, Band: b}
	before := l.Ahead(c)
	l.n++
	it := &fairqueue.Item{Claim: c, Arrived: l.began.Add(time.Duration(l.n) * time.Second), Value: l.n}
	if _, err := l.Push(it); err != nil {
		l.t.Fatal(err)
	}
	if got := l.AheadOf(it); got > before {
		l.t.Errorf("an item of %s has %v ahead of it, and the newcomer had %v", account, got, before)
	}
	return it
}

func (l *line) serve() *fairqueue.Item {
	it, running := l.Next(l.began.Add(time.Hour), nil)
	if it != nil {
		l.Finish(&running, -1)
	}
	return it
}

// Among items of one account, AheadOf is exact near either end, within 1 between, and falls with each item served.
func TestAheadOfOwn(t *testing.T) {
	for _, d := range []fairqueue.Discipline{fairqueue.Fair, fairqueue.FIFO} {
		l := newLine(t, d, fairqueue.Config{})
		var items []*fairqueue.Item
		for range 200 {
			items = append(items, l.join("a", fairqueue.Standard))
		}
		for served := range items {
			last := -1.0
			for i, it := range items[served:] {
				got, exact := l.AheadOf(it), float64(i)
				if near := i < 32 || served+i >= 168; near && got != exact || got < exact-1 || got > exact+1 || got < last {
					t.Fatalf("%d ahead of number %d, after %d were served", int(got), served+i, served)
				}
				last = got
			}
			if l.serve() != items[served] {
				t.Fatal("served out of order")
			}
		}
	}
}

// AheadOf is 0 for the next item, falls as others are served, and is off by at most one for each account.
func TestAheadOfAmongOthers(t *testing.T) {
	for _, d := range []fairqueue.Discipline{fairqueue.Fair, fairqueue.FIFO} {
		t.Run(fmt.Sprint(d), func(t *testing.T) {
			l := newLine(t, d, fairqueue.Config{})
			const accounts = 4
			for range 40 {
				l.join("flooder", fairqueue.Standard)
			}
			for n := range 30 {
				l.join(fmt.Sprint("a", n%(accounts-1)), fairqueue.Standard)
			}
			urgent := l.join("now", fairqueue.Interactive)
			if got := l.AheadOf(urgent); got != 0 {
				t.Errorf("%v ahead of the only one of its band", got)
			}
			batch := l.join("flooder", fairqueue.Batch)
			if got := l.AheadOf(batch); got != 71 {
				t.Errorf("%v ahead of a lower band, want 71", got)
			}
			// AheadOf each item at each moment, then the order of service.
			var order []*fairqueue.Item
			seenAhead := map[*fairqueue.Item][]float64{}
			for l.Len() > 0 {
				for it := range l.Items() {
					seenAhead[it] = append(seenAhead[it], l.AheadOf(it))
				}
				order = append(order, l.serve())
			}
			for place, it := range order {
				for moment, got := range seenAhead[it] {
					real := float64(place - moment)
					if off := got - real; off > accounts || off < -accounts {
						t.Errorf("item %v: AheadOf is %v with %v ahead", it.Value, got, real)
					}
					if moment > 0 && got > seenAhead[it][moment-1]+1e-9 {
						t.Errorf("item %v: AheadOf rose from %v to %v", it.Value, seenAhead[it][moment-1], got)
					}
				}
				if last := seenAhead[it][place]; last != 0 {
					t.Errorf("item %v: AheadOf is %v when it is next", it.Value, last)
				}
			}
		})
	}
}

// An item of an account at its cap waits for a request of that account to end.
func TestAheadOfCapped(t *testing.T) {
	l := newLine(t, fairqueue.Fair, fairqueue.Config{Slots: 8})
	c := fairqueue.Claim{Account: "a", Band: fairqueue.Standard, Concurrent: 1}
	if _, ok := start(l.Queue, c); !ok {
		t.Fatal("not started")
	}
	it := &fairqueue.Item{Claim: c, Arrived: l.began}
	if _, err := l.Push(it); err != nil {
		t.Fatal(err)
	}
	if got := l.AheadOf(it); got != 7 {
		t.Errorf("%v ahead, want the 7 others that the pool serves while its account's slot is taken", got)
	}
}
