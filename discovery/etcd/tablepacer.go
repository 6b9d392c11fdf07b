package etcd

import "time"

// Changes that arrive together are for one table. It waits until none has come for settleTime, but no longer than maxSettleTime
// after the first. Under a constant stream of changes, tables are built during at most one of tableTimeShare parts of the time,
// and not more often than each minTableInterval; but at least each maxTableInterval, if that leaves time for anything else.
const (
	settleTime       = 5 * time.Millisecond
	maxSettleTime    = 15 * time.Millisecond
	minTableInterval = 20 * time.Millisecond
	maxTableInterval = 200 * time.Millisecond
	tableTimeShare   = 10
)

// tablePacer decides when the table of the newest changes is due. It has no clock of its own.
type tablePacer struct {
	first, last time.Time // of the changes since the last table; zero = there is none
	earliest    time.Time // for the next table
}

// change notes that a change has arrived.
func (p *tablePacer) change(now time.Time) {
	if p.first.IsZero() {
		p.first = now
	}
	p.last = now
}

// built notes that a table was built, from began to now.
func (p *tablePacer) built(began, now time.Time) {
	interval := min(max(tableTimeShare*now.Sub(began), minTableInterval), maxTableInterval)
	*p = tablePacer{earliest: now.Add(interval)}
}

// due returns when the next table may be built; without a change since the last, at any time after the interval.
func (p *tablePacer) due() time.Time {
	settled := p.last.Add(settleTime)
	if latest := p.first.Add(maxSettleTime); latest.Before(settled) {
		settled = latest
	}
	if settled.Before(p.earliest) {
		return p.earliest
	}
	return settled
}
