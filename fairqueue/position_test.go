package fairqueue_test

import (
	"fmt"
	"testing"
	"time"

	"colonnade/fairqueue"
)

// line is a queue whose items came a second apart.
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

// join puts in an item, of an account and a band, and compares what it hears with what it would have been told before.
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
		l.t.Errorf("%s is told that %v are ahead of it, and was told %v", account, got, before)
	}
	return it
}

func (l *line) serve() *fairqueue.Item {
	it, running := l.Next(l.began.Add(time.Hour), nil)
	if it != nil {
		l.Finish(running, -1)
	}
	return it
}

// Of one account it is exact near either end, in its bounds between, and falls with each that is served.
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

// Whatever waits, by the order of service: what is told is 0 for the next, falls as others are served, and is no more
// than one for each account away from what comes.
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
			// What each was told at each moment; then the order in which they came.
			var order []*fairqueue.Item
			heard := map[*fairqueue.Item][]float64{}
			for l.Len() > 0 {
				for it := range l.Items() {
					heard[it] = append(heard[it], l.AheadOf(it))
				}
				order = append(order, l.serve())
			}
			for place, it := range order {
				for moment, got := range heard[it] {
					real := float64(place - moment)
					if off := got - real; off > accounts || off < -accounts {
						t.Errorf("number %v was told %v when %v were ahead of it", it.Value, got, real)
					}
					if moment > 0 && got > heard[it][moment-1]+1e-9 {
						t.Errorf("number %v was told %v, then %v", it.Value, heard[it][moment-1], got)
					}
				}
				if last := heard[it][place]; last != 0 {
					t.Errorf("number %v was told %v when it was the next", it.Value, last)
				}
			}
		})
	}
}

// An account at its cap waits for slots of its own.
func TestAheadOfCapped(t *testing.T) {
	l := newLine(t, fairqueue.Fair, fairqueue.Config{Slots: 8})
	c := fairqueue.Claim{Account: "a", Band: fairqueue.Standard, Concurrent: 1}
	if _, ok := l.Start(c); !ok {
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
