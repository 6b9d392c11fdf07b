package fairqueue

import "time"

// BandState is the state of one band.
type BandState struct {
	Waiting  int     // items
	Running  int     // requests
	Accounts int     // with something waiting
	V        float64 // virtual time; see the package comment
}

// Band returns the state of a band.
func (q *Queue) Band(b Band) BandState {
	of := &q.bands[b]
	return BandState{Waiting: of.waiting, Running: of.running, Accounts: of.flows, V: of.v}
}

// Visit calls f with every account whose state is kept, in no order. The queue may change while f runs, so f may release
// the lock that guards the queue and take it again: an account that comes or is forgotten meanwhile may be left out.
func (q *Queue) Visit(f func(Account)) {
	for _, a := range q.accounts {
		f(Account{q, a})
	}
}

// Account reads the state of one account, as it is at the time of each call. Of an account that has been forgotten
// since it was visited, nothing waits and nothing runs.
type Account struct {
	queue   *Queue
	account *account
}

// Name returns the account's name.
func (a Account) Name() string { return a.account.name }

// Weight returns the account's share relative to other accounts.
func (a Account) Weight() float64 { return a.account.weight }

// Cap returns how many requests the account may run at once: its own cap or MaxShare, whichever is less; 0: no cap.
func (a Account) Cap() int { return a.queue.effectiveCap(a.account.ownCap) }

// AtLimit is [Queue.AtLimit] of the account.
func (a Account) AtLimit() bool { return a.queue.atLimit(a.account, a.account.ownCap) }

// Waiting returns the number of items waiting.
func (a Account) Waiting() int { return int(a.account.held[requests]) }

// Running returns the number of requests running.
func (a Account) Running() int { return a.account.running }

// Bytes returns what the items waiting hold.
func (a Account) Bytes() int64 { return a.account.held[bytes] }

// MeanOutput returns what one of the account's last outputs has cost, on the mean; 0: not known.
func (a Account) MeanOutput() float64 { return a.account.learned.output.value }

// FlowState is what an account has in one band.
type FlowState struct {
	Waiting int
	Running int
	Lead    float64 // how far S is above where an account that owes nothing starts to wait
}

// Flow returns what the account has in a band.
func (a Account) Flow(b Band) FlowState {
	f := &a.account.flows[b]
	return FlowState{Waiting: f.waiting, Running: f.running, Lead: max(0, f.s-a.queue.vtimeFloor(f.band))}
}

// Oldest returns when the account's oldest item waiting in a band arrived; zero: none waits.
func (a Account) Oldest(b Band) time.Time {
	if head := a.account.flows[b].head; head != nil {
		return head.Arrived
	}
	return time.Time{}
}
