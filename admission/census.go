package admission

import (
	"time"

	"colonnade/permits"
)

// Census is one pool as /debug/pools shows it: its state, and who holds and waits.
type Census struct {
	State
	Granting       bool           `json:"granting"`          // false: the right to grant has run out, or the server drains
	MeanHeldMillis *float64       `json:"mean_held_ms"`      // for how long permits are held; null while not known
	SlotWorth      *float64       `json:"slot_worth"`        // a second, in cost; null while not known, or where all requests cost the same
	ToldToComeBack int            `json:"told_to_come_back"` // refused, with a Retry-After that is not yet due
	Soonest        []SoonestState `json:"soonest"`           // which deadlines are too near: sorted by model, path, and streamed last
	Queue          QueueState     `json:"queue"`
	Bands          []BandState    `json:"bands"`          // all, the highest first
	Accounts       []AccountState `json:"accounts"`       // those that hold and wait most, most first
	OtherAccounts  int            `json:"other_accounts"` // that hold or wait, beside these
}

// SoonestState is how soon answers of one kind have lately begun, at least. A permit that would come later than that before a
// request's deadline is of no use to it; to one that asks less of an engine than these did, it is in proportion.
type SoonestState struct {
	Model    string  `json:"model"`
	Path     string  `json:"path"`
	Streamed bool    `json:"streamed"`
	Millis   float64 `json:"ms"`
}

// QueueState is how a pool queues: the bounds in force, and how much of them is used. What is queued stands in State.
type QueueState struct {
	Discipline   string `json:"discipline"`
	Cost         string `json:"cost"`
	Limit        int    `json:"limit"`
	PerAccount   int    `json:"per_account"`
	Bytes        int64  `json:"bytes"`
	BytesLimit   int64  `json:"bytes_limit"`
	MaxWaitMs    int64  `json:"max_wait_ms"`
	OldestMillis *int64 `json:"oldest_wait_ms"` // since the oldest that waits arrived; null when none does
}

// BandState is one band of a pool.
type BandState struct {
	Band         string  `json:"band"`
	Held         int     `json:"held"`
	Queued       int     `json:"queued"`
	Accounts     int     `json:"accounts"` // with requests queued
	OldestMillis *int64  `json:"oldest_wait_ms"`
	VirtualTime  float64 `json:"virtual_time"`
}

// AccountState is what an account holds in a pool, and what of it waits.
type AccountState struct {
	Account      string      `json:"account"`
	Weight       float64     `json:"weight"`
	Held         int         `json:"held"`
	Queued       int         `json:"queued"`
	Cap          *int        `json:"cap"` // permits it may hold at once; null: no cap
	AtLimit      bool        `json:"at_limit"`
	Bytes        int64       `json:"bytes"` // of what it has queued
	Told         int         `json:"told_to_come_back"`
	MeanOutput   *float64    `json:"mean_output_cost"` // of its last requests; null while not known, or where all requests cost the same
	OldestMillis *int64      `json:"oldest_wait_ms"`
	Bands        []FlowState `json:"bands"` // in which it holds or waits, the highest first
}

// FlowState is what an account has in one band.
type FlowState struct {
	Band   string  `json:"band"`
	Held   int     `json:"held"`
	Queued int     `json:"queued"`
	Ahead  float64 `json:"ahead"` // by how much more it was served than its share, in cost for weight: others go first until they have caught up
}

// Census reads the pool's state, and names at most so many accounts.
func (p *Pool) Census(accounts int) Census {
	census := p.permits.Census(accounts)
	c := Census{
		State: p.state(census.Snapshot), Granting: census.Granting, ToldToComeBack: census.Told,
		Soonest: p.ttft.states(time.Now()), Queue: p.queueState(&census), Bands: []BandState{}, Accounts: []AccountState{}, OtherAccounts: census.Others,
	}
	if census.MeanHeld > 0 {
		ms := float64(census.MeanHeld) / float64(time.Millisecond)
		c.MeanHeldMillis = &ms
	}
	if census.Worth > 0 {
		c.SlotWorth = &census.Worth
	}
	for _, b := range census.Bands {
		c.Bands = append(c.Bands, BandState{
			Band: b.Band.String(), Held: b.Held, Queued: b.Queued, Accounts: b.Accounts,
			OldestMillis: waited(b.Queued, b.Oldest), VirtualTime: b.V,
		})
	}
	for i := range census.Accounts {
		c.Accounts = append(c.Accounts, accountState(&census.Accounts[i]))
	}
	return c
}

func (p *Pool) queueState(c *permits.Census) QueueState {
	document := p.Document()
	return QueueState{
		Discipline: document.Queue.Discipline, Cost: document.Queue.Cost,
		Limit: c.Config.Limit, PerAccount: c.Config.PerAccount, Bytes: c.Bytes, BytesLimit: c.Config.Bytes,
		MaxWaitMs: c.Config.MaxWait.Milliseconds(), OldestMillis: waited(c.Queued, c.Oldest),
	}
}

func accountState(a *permits.AccountCensus) AccountState {
	s := AccountState{
		Account: a.Account, Weight: a.Weight, Held: a.Held, Queued: a.Queued, AtLimit: a.AtLimit, Bytes: a.Bytes,
		Told: a.Told, OldestMillis: waited(a.Queued, a.Oldest), Bands: []FlowState{},
	}
	if a.Output > 0 {
		s.MeanOutput = &a.Output
	}
	if a.Most > 0 {
		s.Cap = &a.Most
	}
	for _, f := range a.Bands {
		s.Bands = append(s.Bands, FlowState{Band: f.Band.String(), Held: f.Held, Queued: f.Queued, Ahead: f.Ahead})
	}
	return s
}

// waited is the age of the oldest of so many that wait; nil when none does.
func waited(queued int, oldest time.Duration) *int64 {
	if queued == 0 {
		return nil
	}
	ms := oldest.Milliseconds()
	return &ms
}
