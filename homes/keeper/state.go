package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"colonnade/fleet"
	"colonnade/homes"
)

// Home is the home of a pool by the table in force.
type Home struct {
	Node     string
	Address  string // of its peer listener; empty = the home is this server
	Boot     string // of its process; empty = the home is this server
	Protocol int    // the newest that it speaks; 0 = the home is this server
	Here     bool   // the home is this server
	Revision int64  // of the newest change of the colo's servers in the table
	Known    int64  // all changes up to this revision are in the table
}

// Home returns the home of a pool.
func (k *Keeper) Home(pool string) Home {
	p := k.placed.Load()
	h := Home{Node: k.config.Self.Node, Here: true, Revision: p.table.ServersRevision(k.config.Colo)}
	h.Known = max(h.Revision, p.table.Listed)
	if home := p.homes[pool]; home != nil {
		h.Node, h.Address, h.Boot, h.Protocol, h.Here = home.Node, home.Address, home.Boot, home.Protocol.Max, false
	}
	return h
}

// OldServer returns a registered server of a version that cannot share its colo: beside it, this one grants nothing. nil if there is none.
func (k *Keeper) OldServer() *fleet.Server { return k.placed.Load().old }

// AwaitHandover waits until the table shows that this server drains, so that requests that wait here can be sent to the next home. It
// returns at once if no other server of the colo is active, and after limit at the latest.
func (k *Keeper) AwaitHandover(ctx context.Context, limit time.Duration) {
	await(ctx, limit, k.handedOver)
}

// AwaitOwned waits until the server may grant on all engines that it wants, at most for limit.
func (k *Keeper) AwaitOwned(ctx context.Context, limit time.Duration) {
	await(ctx, limit, func() bool { return k.Stats().Wanted == 0 })
}

func await(ctx context.Context, limit time.Duration, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(awaitInterval):
		}
	}
}

// awaitInterval is the time between two calls of done.
const awaitInterval = 5 * time.Millisecond

func (k *Keeper) handedOver() bool {
	for _, s := range k.placed.Load().table.Registered(k.config.Colo) {
		if s.Node == k.config.Self.Node && s.State == fleet.StateActive {
			return k.Alone()
		}
	}
	return true
}

// Stats has the counts of a server's pools and engines.
type Stats struct {
	Homes         int // pools whose home is this server
	Owned         int // engines on which it may grant
	Wanted        int // engines on which it may not grant yet
	HeldElsewhere int // requests of other servers on the engines that it owns or wants
	WrittenOff    int // records of silent processes that were deleted, since the start
}

// Stats returns the counts.
func (k *Keeper) Stats() Stats {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.placed.Load()
	s := Stats{Homes: len(p.table.Pools()) - len(p.homes), WrittenOff: int(k.writtenOff.Load())}
	for _, e := range p.table.EndpointsOf(k.config.Colo) {
		switch state := k.ownership.State(e.URL); state.State {
		case homes.StateOwned:
			s.Owned++
			s.HeldElsewhere += state.HeldElsewhere
		case homes.StateWanted:
			s.Wanted++
			s.HeldElsewhere += state.HeldElsewhere
		}
	}
	return s
}

// Engines returns the ownership of the engines of a pool, by endpoint ID.
func (k *Keeper) Engines(pool string) []homes.EngineState {
	k.mu.Lock()
	defer k.mu.Unlock()
	states := []homes.EngineState{}
	for _, e := range k.placed.Load().table.Endpoints(k.config.Colo, pool) {
		states = append(states, k.ownership.State(e.URL))
	}
	return states
}

// Problems returns the records that cannot be read as a whole, sorted.
func (k *Keeper) Problems() []homes.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.DeleteFunc(k.ownership.Records(), func(r homes.Record) bool { return r.Problem == "" })
}

// confirmAfter is the time after which a second question must confirm that two servers may grant on one engine: the owner of an engine may
// change between the answers of the first.
const confirmAfter = 100 * time.Millisecond

// Check asks all other servers of the colo, and returns an error for each engine on which two servers may grant, one if this server
// reaches the store but no sibling, and one if the colo has more than [fleet.MaxServers] active servers.
func (k *Keeper) Check(ctx context.Context) []error {
	placed := k.placed.Load()
	siblings := placed.siblings(k.config.Colo, k.config.Self.Node)
	if len(siblings) == 0 {
		return nil
	}
	var wrong []error
	if n := placed.active(k.config.Colo); n > fleet.MaxServers {
		wrong = append(wrong, fmt.Errorf("this colo has %d active servers, and at most %d are supported: stop the others", n, fleet.MaxServers))
	}
	first, answered := k.grantedTwice(ctx, siblings)
	if answered == 0 && time.Since(k.config.Confirmed()) < storeSilence {
		wrong = append(wrong, fmt.Errorf("this server reaches etcd, but none of the %d other servers of its colo at their registered addresses", len(siblings)))
	}
	if len(first) == 0 {
		return wrong
	}
	select {
	case <-time.After(confirmAfter):
	case <-ctx.Done():
		return append(wrong, context.Cause(ctx))
	}
	second, _ := k.grantedTwice(ctx, siblings)
	for conflict := range first {
		if second[conflict] {
			wrong = append(wrong, errors.New(conflict))
		}
	}
	return wrong
}

// grantedTwice asks the siblings on which engines they may grant. It returns a text for each engine on which this server may grant too, and
// how many siblings answered.
func (k *Keeper) grantedTwice(ctx context.Context, siblings []*fleet.Server) (conflicts map[string]bool, answered int) {
	results := k.ask(ctx, targetsOf(siblings), func(Target) string { return "" })
	mayGrant := k.config.MayGrant()
	k.mu.Lock()
	defer k.mu.Unlock()
	conflicts = map[string]bool{}
	for i, r := range results {
		if r.heard {
			answered++
		}
		for _, url := range r.answer.Grants {
			if mayGrant && k.ownership.Grants(url) {
				conflicts[fmt.Sprintf("%s and %s may both grant on %s", k.config.Self.Node, siblings[i].Node, url)] = true
			}
		}
	}
	return conflicts, answered
}
