package permits

import (
	"runtime"
	"time"

	"colonnade/fairqueue"
)

// Census is the state of a pool together with who holds and who waits.
type Census struct {
	Snapshot
	Config   Config          // in force
	Granting bool            // false: the right to grant has run out, or Drain was called
	Bytes    int64           // held by the requests waiting
	Told     int             // told to come back, and not yet due
	MeanHeld time.Duration   // for how long permits are held; 0 when unknown
	Worth    float64         // of a slot a second, in cost; 0 when unknown, and ByRequests
	Oldest   time.Duration   // since the oldest request waiting arrived; 0 when none waits
	Bands    []BandCensus    // all, the highest first
	Accounts []AccountCensus // those that hold and wait most, most first
	Others   int             // accounts that hold or wait beside them
}

// BandCensus is one band of a pool.
type BandCensus struct {
	Band     Band
	Queued   int
	Held     int
	Accounts int           // with requests waiting
	Oldest   time.Duration // as in Census
	V        float64       // virtual time; see fairqueue
}

// AccountCensus is what an account has in a pool.
type AccountCensus struct {
	Account string
	Weight  float64
	Held    int
	Queued  int
	Most    int  // permits it may hold at once; 0: no cap
	AtLimit bool // it holds as many, while there are slots beyond that
	Bytes   int64
	Told    int           // as in Census
	Oldest  time.Duration // as in Census
	Output  float64       // what its last outputs have cost, on the mean; 0: not known
	Bands   []FlowCensus  // those in which it holds or waits, the highest first
}

// FlowCensus is what an account has in one band.
type FlowCensus struct {
	Band   Band
	Held   int
	Queued int
	Ahead  float64 // by how much more it was served than its share, in cost for weight; see fairqueue
}

// Census is Snapshot, and names at most so many accounts. It looks at every account that is kept, and lets go of the mutex
// in between, so that nobody waits longer for it than a few hundred accounts take.
func (p *Pool) Census(most int) Census {
	p.mu.Lock()
	defer p.mu.Unlock()
	queue := p.queue.Census(most, func() {
		p.mu.Unlock()
		runtime.Gosched() // else who waits for the mutex may be too late for it
		p.mu.Lock()
	})
	now := p.instant()
	c := Census{
		Snapshot: p.snapshotLocked(now),
		Config:   p.config,
		Granting: !p.draining && p.mayGrantLocked(now),
		Bytes:    p.queue.Bytes(),
		Told:     p.retriesLocked(now),
		Worth:    p.slotCostLocked(time.Second),
		Others:   queue.Others,
	}
	if p.holds.completions >= minCompletions {
		c.MeanHeld = time.Duration(p.holds.mean)
	}
	at := p.began.Add(now)
	for i, b := range queue.Bands {
		oldest := age(at, b.Oldest)
		c.Oldest = max(c.Oldest, oldest)
		c.Bands = append(c.Bands, BandCensus{
			Band: Band(i), Queued: b.Waiting, Held: b.Running, Accounts: b.Accounts, Oldest: oldest, V: b.V,
		})
	}
	for i := range queue.Accounts {
		c.Accounts = append(c.Accounts, p.accountLocked(&queue.Accounts[i], at))
	}
	return c
}

func (p *Pool) accountLocked(a *fairqueue.AccountCensus, at time.Time) AccountCensus {
	c := AccountCensus{
		Account: a.Account, Weight: a.Weight, Most: a.Runs, AtLimit: a.AtLimit, Bytes: a.Bytes,
		Told: p.retriesOfLocked(a.Account), Oldest: age(at, a.Oldest), Output: a.Output,
	}
	for i, f := range a.Bands {
		c.Held += f.Running
		c.Queued += f.Waiting
		if f.Running+f.Waiting > 0 {
			c.Bands = append(c.Bands, FlowCensus{Band: Band(i), Held: f.Running, Queued: f.Waiting, Ahead: f.Ahead})
		}
	}
	return c
}

// age is how old what arrived then is now; 0 if nothing did.
func age(now, arrived time.Time) time.Duration {
	if arrived.IsZero() {
		return 0
	}
	return max(0, now.Sub(arrived))
}
