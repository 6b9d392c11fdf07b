package fairqueue_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/fairqueue"
)

// A request that finds a free slot.
func BenchmarkStartFinish(b *testing.B) {
	q := fairqueue.New(roomy)
	b.ReportAllocs()
	for b.Loop() {
		run, _ := start(q, account("a"))
		q.Finish(&run, -1)
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

// One item is served, charged, finished and pushed again, for the same account or, by Zipf's law, for one of a few accounts
// that send most items. 20000 items wait.
func BenchmarkTurn(b *testing.B) {
	run := func(name string, config fairqueue.Config, accounts int, next func(it *fairqueue.Item) string) {
		b.Run(name, func(b *testing.B) {
			config.PromoteAfter = time.Second
			q := fairqueue.New(config)
			for _, it := range items(20_000, accounts) {
				if _, err := q.Push(it); err != nil {
					b.Fatal(err)
				}
			}
			now := time.Unix(20_000, 0)
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Millisecond)
				it, run := q.Next(now, nil)
				q.Charge(&run, 2)
				q.Learn(&run, fairqueue.Estimate{Input: 1, Output: 2})
				q.Finish(&run, 3)
				it.Account, it.Arrived = next(it), now
				if _, err := q.Push(it); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	same := func(it *fairqueue.Item) string { return it.Account }
	fifo := roomy
	fifo.Discipline = fairqueue.FIFO
	for _, accounts := range []int{1, 100, 10_000} {
		run(fmt.Sprintf("accounts=%d", accounts), learning(), accounts, same)
	}
	run("fifo/accounts=10000", fifo, 10_000, same)
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 9_999)
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = fmt.Sprint(zipf.Uint64())
	}
	at := 0
	run("zipf/accounts=10000", learning(), 10_000, func(*fairqueue.Item) string {
		at++
		return names[at%len(names)]
	})
}

// A new account, after so many have come and gone beside one that stays.
func BenchmarkNewcomer(b *testing.B) {
	for _, gone := range []int{0, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("gone=%d", gone), func(b *testing.B) {
			q := fairqueue.New(roomy)
			start(q, account("steady"))
			runs := make([]fairqueue.Running, gone)
			for i := range runs {
				runs[i], _ = start(q, account(fmt.Sprint(i)))
			}
			for _, run := range runs {
				q.Finish(&run, -1)
			}
			names := make([]string, 1<<16)
			for i := range names {
				names[i] = fmt.Sprint("new", i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				run, _ := start(q, account(names[i%len(names)]))
				q.Finish(&run, -1)
			}
		})
	}
}

// A newcomer at a full queue of 10000 accounts, which is refused because no account holds more than its own would.
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
