package permits

import (
	"maps"
	"runtime"
	"slices"
	"time"

	"colonnade/fairqueue"
)

// Stats returns the state of the pool, without what takes a look at every account: Accounts, OtherAccounts, and the ages
// of what waits. It costs the same however many accounts there are.
func (p *Pool) Stats() Stats {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statsLocked(now)
}

// accountsPerVisit is how many accounts are looked at before the mutex is released for a moment.
const accountsPerVisit = 256

// DetailedStats returns the whole state of the pool, and names at most so many accounts. It looks at every account that
// is kept, and releases the mutex every accountsPerVisit of them, so that a request waits for it no longer than those
// take. Which accounts are named, and how old the oldest request is, may therefore be a little older than the rest,
// which is of one moment.
func (p *Pool) DetailedStats(accounts int) Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen, active := 0, 0
	busiest := make(topAccounts, 0, min(accounts, 64)+1)
	var oldest [Batch + 1]time.Time
	p.queue.Visit(func(a fairqueue.Account) {
		if seen++; seen%accountsPerVisit == 0 {
			p.mu.Unlock()
			runtime.Gosched() // a goroutine that waits for the mutex would lose the race for it otherwise
			p.mu.Lock()
		}
		if t := newTopAccount(a); t.total > 0 {
			active++
			busiest.add(t, accounts)
			for b := range oldest {
				oldest[b] = earlier(oldest[b], a.Oldest(Band(b)))
			}
		}
	})
	now := p.instant()
	s := p.statsLocked(now)
	at := p.began.Add(now)
	first := time.Time{}
	for b := range s.Bands {
		s.Bands[b].OldestMillis = millisSince(at, oldest[b], s.Bands[b].Queued)
		if s.Bands[b].Queued > 0 {
			first = earlier(first, oldest[b])
		}
	}
	s.Queue.OldestMillis = millisSince(at, first, s.Queued)
	s.OtherAccounts = active - len(busiest)
	for _, t := range busiest.refreshed() {
		s.Accounts = append(s.Accounts, p.accountStatsLocked(t.Account, at))
	}
	return s
}

func (p *Pool) statsLocked(now time.Duration) Stats {
	load := p.loadLocked(now)
	s := Stats{
		Limit: load.Limit, Held: load.Held, Free: load.Free, Queued: load.Queued, StandIns: p.standIns,
		Draining:       p.draining,
		Granting:       !p.draining && p.mayGrantLocked(now),
		RatePerSecond:  p.rateLocked(now),
		FullSeconds:    p.fullLocked(now).Seconds(),
		Granted:        p.serial,
		Released:       p.released,
		Refused:        maps.Clone(p.refused),
		PendingRetries: p.retriesLocked(now),
		Endpoints:      p.endpointStatsLocked(),
		Balance:        BalanceStats{Policy: p.config.Balance.Policy.String(), Choices: p.choices.stats()},
		Queue: QueueStats{
			Discipline: p.config.Discipline.String(), Cost: p.config.Cost.String(),
			Limit: p.config.Limit, PerAccount: p.config.PerAccount,
			Bytes: p.queue.Bytes(), BytesLimit: p.config.Bytes, MaxWaitMs: p.config.MaxWait.Milliseconds(),
		},
		Accounts: []AccountStats{},
	}
	if load.Known {
		s.ExpectedMillis = new(load.Expected.Milliseconds())
	}
	if p.holds.completions >= minCompletions {
		s.MeanHeldMillis = new(p.holds.mean / float64(time.Millisecond))
	}
	if cost := p.slotCostLocked(time.Second); cost > 0 {
		s.CostPerSlotSecond = &cost
	}
	for b := range Batch + 1 {
		band := p.queue.Band(b)
		s.Bands = append(s.Bands, BandStats{
			Band: b.String(), Held: band.Running, Queued: band.Waiting, Accounts: band.Accounts, VirtualTime: band.V,
		})
	}
	return s
}

// fullLocked is the time with slots but none free.
func (p *Pool) fullLocked(now time.Duration) time.Duration {
	if p.fullSince < 0 {
		return p.fullTotal
	}
	return p.fullTotal + max(0, now-p.fullSince)
}

func (p *Pool) accountStatsLocked(a fairqueue.Account, at time.Time) AccountStats {
	s := AccountStats{
		Account: a.Name(), Weight: a.Weight(), Held: a.Running(), Queued: a.Waiting(), AtLimit: a.AtLimit(), Bytes: a.Bytes(),
		PendingRetries: p.retriesOfLocked(a.Name()),
	}
	if most := a.Cap(); most > 0 {
		s.Cap = &most
	}
	if output := a.MeanOutput(); output > 0 {
		s.MeanOutput = &output
	}
	oldest := time.Time{}
	for b := range Batch + 1 {
		f := a.Flow(b)
		oldest = earlier(oldest, a.Oldest(b))
		if f.Running+f.Waiting > 0 {
			s.Bands = append(s.Bands, FlowStats{Band: b.String(), Held: f.Running, Queued: f.Waiting, VTimeLead: f.Lead})
		}
	}
	s.OldestMillis = millisSince(at, oldest, s.Queued)
	return s
}

// Endpoints returns the state of the endpoints: those of the pool in the order of SetEndpoints, then those removed, by ID.
func (p *Pool) Endpoints() []EndpointStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpointStatsLocked()
}

func (p *Pool) endpointStatsLocked() []EndpointStats {
	all := make([]EndpointStats, 0, len(p.endpoints))
	for i, e := range p.order {
		s := e.stats()
		s.Indexed = p.balancer.Cached(i)
		all = append(all, s)
	}
	for _, id := range slices.Sorted(maps.Keys(p.endpoints)) {
		if e := p.endpoints[id]; e.removed {
			all = append(all, e.stats())
		}
	}
	return all
}

func (e *endpoint) stats() EndpointStats {
	return EndpointStats{
		URL: e.ID, Concurrency: e.Concurrency, Held: e.held, Taken: e.Taken, Full: e.full, Withheld: e.Withheld, Draining: e.Draining,
		Weight: e.Weight, Usable: e.usable, Removed: e.removed,
	}
}

// millisSince is the age of the oldest of so many requests waiting, in milliseconds; nil if none waits.
func millisSince(now, oldest time.Time, waiting int) *int64 {
	if waiting == 0 || oldest.IsZero() {
		return nil
	}
	return new(max(0, now.Sub(oldest).Milliseconds()))
}

// earlier returns the earlier of two times; zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
