package ratelimit

import (
	"sync"
	"time"
)

// Buckets is the state of limits as one node knows it. It is safe for concurrent use.
type Buckets struct {
	mu         sync.Mutex           // guards the fields below
	fullAt     map[string]time.Time // of each bucket that is in use: when it is full again
	spent      map[string]Spending
	emptySince time.Time // buckets that are not in fullAt were empty then; zero = they are full
	sweepAt    int       // number of buckets and budgets at which those that are not needed any more are removed
}

// Spending is what is known of a budget.
type Spending struct {
	Common float64   `json:"common,omitempty"` // by all nodes, as last read from their common state
	Own    float64   `json:"own,omitempty"`    // by this node since
	Ends   time.Time `json:"ends"`
}

const minSweep = 1024

// NewBuckets returns full buckets, and budgets of which so much is spent; spent may be nil.
func NewBuckets(spent map[string]Spending) *Buckets {
	b := &Buckets{fullAt: map[string]time.Time{}, spent: map[string]Spending{}, sweepAt: minSweep}
	for key, s := range spent {
		b.spent[key] = s
	}
	return b
}

// Take takes what the request demands, if each limit has it, and nothing otherwise. It returns the level of each limit, in the order of the
// demands. The node enforces the share of each limit, above 0 and at most 1.
func (b *Buckets) Take(demands []Demand, share float64, now time.Time) []Level {
	b.mu.Lock()
	defer b.mu.Unlock()
	levels := make([]Level, len(demands))
	for i := range demands {
		levels[i] = b.levelLocked(&demands[i], share, now)
	}
	if !Allowed(levels) {
		return levels
	}
	for i := range demands {
		if d, limit := &demands[i], demands[i].Limit*share; !d.IsBudget() {
			taken := Room(limit, d.Amount)
			full := b.fullAtLocked(d.Key, limit, now).Add(Interval(limit, taken))
			b.putLocked(d.Key, full, now)
			levels[i] = RateLevel(limit, full.Sub(now), 0)
			levels[i].Taken = taken
		}
	}
	return levels
}

// levelLocked returns the level of a limit before anything is taken.
func (b *Buckets) levelLocked(d *Demand, share float64, now time.Time) Level {
	if d.IsBudget() {
		s := b.spent[d.Key]
		return BudgetLevel(max(d.Limit-s.Common, 0)*share, s.Own, d.Ends.Sub(now))
	}
	limit := d.Limit * share
	used := b.fullAtLocked(d.Key, limit, now).Sub(now)
	return RateLevel(limit, used, max(used+Interval(limit, Room(limit, d.Amount))-Burst(limit), 0))
}

// fullAtLocked returns when a bucket is full; now if it is.
func (b *Buckets) fullAtLocked(key string, limit float64, now time.Time) time.Time {
	full, known := b.fullAt[key]
	if !known && !b.emptySince.IsZero() {
		full = b.emptySince.Add(Burst(limit))
	}
	if full.Before(now) {
		return now
	}
	return full
}

func (b *Buckets) putLocked(key string, full, now time.Time) {
	if limit := now.Add(maxDebt); full.After(limit) {
		full = limit
	}
	b.fullAt[key] = full
	if len(b.fullAt)+len(b.spent) >= b.sweepAt {
		b.sweepLocked(now)
	}
}

// sweepLocked removes what says the same as if it were not there.
func (b *Buckets) sweepLocked(now time.Time) {
	if !now.Before(b.emptySince.Add(maxDebt)) {
		b.emptySince = time.Time{} // every bucket has filled since
	}
	for key, full := range b.fullAt {
		if full.Before(now) && b.emptySince.IsZero() {
			delete(b.fullAt, key)
		}
	}
	for key, s := range b.spent {
		if s.Ends.Before(now) {
			delete(b.spent, key)
		}
	}
	b.sweepAt = max(minSweep, 2*(len(b.fullAt)+len(b.spent)))
}

// Settle takes the amount of each demand, whether the limit has it or not. A negative amount is returned.
func (b *Buckets) Settle(demands []Demand, share float64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range demands {
		d := &demands[i]
		if d.IsBudget() {
			s := b.spent[d.Key]
			s.Own, s.Ends = s.Own+d.Amount, d.Ends
			b.spent[d.Key] = s
			continue
		}
		limit := d.Limit * share
		b.putLocked(d.Key, b.fullAtLocked(d.Key, limit, now).Add(Interval(limit, d.Amount)), now)
	}
}

// Restart makes all buckets empty. Budgets keep what is spent.
func (b *Buckets) Restart(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.fullAt)
	b.emptySince = now
}

// NoteCommon notes what all nodes have spent of a budget by their common state, this one included.
func (b *Buckets) NoteCommon(d *Demand, spent float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent[d.Key] = Spending{Common: max(spent, b.spent[d.Key].Common), Ends: d.Ends}
}

// Spent returns what is known to be spent of a budget.
func (b *Buckets) Spent(key string) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.spent[key].Common + b.spent[key].Own
}

// Spendings returns what is known of the budgets that have not ended.
func (b *Buckets) Spendings(now time.Time) map[string]Spending {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := map[string]Spending{}
	for key, s := range b.spent {
		if now.Before(s.Ends) {
			open[key] = s
		}
	}
	return open
}
