package fairqueue_test

import (
	"fmt"
	"testing"
	"time"

	"colonnade/fairqueue"
)

// A request that finds a free slot.
func BenchmarkStartFinish(b *testing.B) {
	q := fairqueue.New(roomy)
	b.ReportAllocs()
	for b.Loop() {
		run, _ := q.Start(account("a"))
		q.Finish(run, -1)
	}
}

func items(n, accounts int) []*fairqueue.Item {
	items := make([]*fairqueue.Item, n)
	for i := range items {
		claim := fairqueue.Claim{Account: fmt.Sprint(i % accounts), Weight: float64(1 + i%3)}
		items[i] = &fairqueue.Item{Claim: claim, Bytes: 1000, Arrived: time.Unix(int64(i), 0)}
	}
	return items
}

// One turn of a queue with 10000 accounts and two items each: one is served, finishes, and waits again.
func BenchmarkTurn10000Accounts(b *testing.B) {
	for _, d := range []fairqueue.Discipline{fairqueue.Fair, fairqueue.FIFO} {
		b.Run([]string{"fair", "fifo"}[d], func(b *testing.B) {
			config := roomy
			config.Discipline = d
			config.PromoteAfter = time.Second
			q := fairqueue.New(config)
			for _, it := range items(20_000, 10_000) {
				if _, err := q.Push(it); err != nil {
					b.Fatal(err)
				}
			}
			now := time.Unix(20_000, 0)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				it, run := q.Next(now, nil)
				q.Finish(run, -1)
				it.Arrived = now
				if _, err := q.Push(it); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A newcomer at a full queue of 10000 accounts: refused, because nobody holds more than it would.
func BenchmarkRefuse10000Accounts(b *testing.B) {
	config := roomy
	config.Limit = 10_000
	q := fairqueue.New(config)
	for _, it := range items(10_000, 10_000) {
		it.Weight = 1
		if _, err := q.Push(it); err != nil {
			b.Fatal(err)
		}
	}
	newcomer := &fairqueue.Item{Claim: account("newcomer"), Arrived: time.Unix(20_000, 0)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := q.Push(newcomer); err != fairqueue.ErrFull {
			b.Fatal(err)
		}
	}
}
