package fairqueue

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Census is who waits and runs at one moment.
type Census struct {
	Bands    [bandCount]BandCensus
	Accounts []AccountCensus // those that run and wait most, most first; equals by name
	Others   int             // accounts that run or wait beside them
}

// BandCensus is one band.
type BandCensus struct {
	Waiting  int
	Running  int
	Accounts int       // with something waiting
	Oldest   time.Time // when the oldest item that waits arrived, also of an account at its cap; zero: none waits
	V        float64   // see the package comment
}

// AccountCensus is one account.
type AccountCensus struct {
	Account string
	Weight  float64
	Runs    int       // what it may run at once: its own cap or MaxShare, whichever is less; 0: no cap
	AtLimit bool      // it runs as many, while there are slots beyond that
	Bytes   int64     // held by what it has waiting
	Oldest  time.Time // when its oldest item that waits arrived; zero: none waits
	Output  float64   // what its last outputs have cost, on the mean; 0: nothing was learned of them
	Bands   [bandCount]FlowCensus
}

// FlowCensus is what an account has in one band.
type FlowCensus struct {
	Waiting int
	Running int
	Ahead   float64 // how far S is above where one who owes nothing starts to wait
}

// breath is how many accounts a census looks at in one go.
const breath = 256

// Census counts who waits and runs, and names at most so many accounts. It looks at every account that is kept. So that
// this keeps nobody waiting for long, it calls pause now and then, unless that is nil: meanwhile the queue may be used,
// and change. What is said in the end of bands, and of each account, is of one moment; who is named, how many others
// there are, and how old what waits is, may be of a little earlier.
func (q *Queue) Census(most int, pause func()) Census {
	var first leading
	var oldest [bandCount]time.Time
	all, looked := 0, 0
	for _, a := range q.accounts {
		if looked++; looked%breath == 0 && pause != nil {
			pause()
		}
		for i := range a.flows {
			if head := a.flows[i].head; head != nil {
				oldest[i] = earlier(oldest[i], head.Arrived)
			}
		}
		if l := (leader{a, a.share()}); l.share > 0 {
			all++
			first.add(l, most)
		}
	}
	c := Census{Others: all - len(first)}
	for i := range q.bands {
		b := &q.bands[i]
		c.Bands[i] = BandCensus{Waiting: b.waiting, Running: b.running, Accounts: b.flows, V: b.v}
		if b.waiting > 0 {
			c.Bands[i].Oldest = oldest[i]
		}
	}
	for _, l := range first.again() {
		c.Accounts = append(c.Accounts, q.census(l.account))
	}
	return c
}

// share is how much a runs and waits.
func (a *account) share() int { return int(a.held[requests]) + a.running() }

func (q *Queue) census(a *account) AccountCensus {
	c := AccountCensus{
		Account: a.name, Weight: a.weight, Runs: q.effectiveCap(a.concurrent), AtLimit: q.atLimit(a, a.concurrent), Bytes: a.held[bytes],
		Output: a.learned.output.value,
	}
	for i := range a.flows {
		f := &a.flows[i]
		c.Bands[i] = FlowCensus{Waiting: f.waiting, Running: f.running, Ahead: max(0, f.s-q.vtimeFloor(f.band))}
		if f.head != nil {
			c.Oldest = earlier(c.Oldest, f.head.Arrived)
		}
	}
	return c
}

// earlier returns the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// leader is an account, and how much it runs and waits.
type leader struct {
	account *account
	share   int
}

// leading are the first of all that were added, in order.
type leading []leader

// add keeps at most so many. Nearly all that come are behind the last by then, which one comparison tells; accounts
// come in the order of a map, so nobody can have them come in the order that costs most.
func (l *leading) add(one leader, most int) {
	if len(*l) >= most {
		if most <= 0 || one.compare((*l)[most-1]) >= 0 {
			return
		}
		*l = (*l)[:most-1]
	}
	at, _ := slices.BinarySearchFunc(*l, one, leader.compare)
	*l = slices.Insert(*l, at, one)
}

// again is in order also if the accounts have changed since they were added.
func (l leading) again() leading {
	var now leading
	for _, one := range l {
		if one.share = one.account.share(); one.share > 0 {
			now = append(now, one)
		}
	}
	slices.SortFunc(now, leader.compare)
	return now
}

func (l leader) compare(other leader) int {
	return cmp.Or(cmp.Compare(other.share, l.share), strings.Compare(l.account.name, other.account.name))
}
