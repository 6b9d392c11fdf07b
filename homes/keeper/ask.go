package keeper

import (
	"context"
	"maps"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/homes"
)

const (
	answerTimeout   = time.Second            // of a question, by this server's clock, which also runs while the process is stopped
	siblingInterval = 500 * time.Millisecond // between questions to a sibling
	lapseLimit      = time.Second            // for which the right to grant has lapsed, after which requests are sent to the siblings
	storeSilence    = 2 * time.Second        // for which the store has not answered, after which the siblings are asked
	replaceTimeout  = 2 * time.Second
	replaceRetry    = 500 * time.Millisecond // after a record could not be changed
)

// result is the result of one question.
type result struct {
	asked   time.Time
	answer  homes.Answer
	heard   bool // the process answered
	refused bool // the address refuses connections
}

// ask asks all of the targets at once.
func (k *Keeper) ask(ctx context.Context, targets []Target, about func(Target) string) []result {
	results := make([]result, len(targets))
	var asking sync.WaitGroup
	for i, to := range targets {
		asking.Go(func() { results[i] = k.askOne(ctx, to, about(to)) })
	}
	asking.Wait()
	return results
}

func (k *Keeper) askOne(ctx context.Context, to Target, about string) result {
	r := result{asked: time.Now()}
	if to.Address == "" {
		return r
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := k.config.Ask(ctx, to, about)
	if time.Since(r.asked) > answerTimeout { // this process was stopped meanwhile
		return r
	}
	r.answer, r.heard, r.refused = answer, err == nil, err != nil && k.config.Refused(err)
	return r
}

// runOrphans asks the processes of orphaned records, and changes these records.
func (k *Keeper) runOrphans(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var asking sync.WaitGroup
	defer asking.Wait()
	answered := make(chan struct{}, 1)
	isAsking, failing := false, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.look:
		case <-timer.C:
		case <-answered:
			isAsking = false
		}
		if due := k.dueOrphans(isAsking); len(due) > 0 {
			isAsking = true
			asking.Go(func() { // changes that are already due do not wait for the answers
				k.askOrphans(ctx, due)
				answered <- struct{}{}
			})
		}
		failing = !k.settleOrphans(ctx, failing)
		wait := k.untilNextOrphan()
		if failing {
			wait = max(wait, replaceRetry)
		}
		timer.Reset(wait)
	}
}

// dueOrphans returns the records whose processes must be asked now; none while earlier questions are open.
func (k *Keeper) dueOrphans(isAsking bool) []homes.Record {
	if isAsking {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.orphans.Due(time.Now())
}

// settleOrphans makes the changes of orphaned records that are due now, and reports whether all succeeded. failing means that one failed the
// last time.
func (k *Keeper) settleOrphans(ctx context.Context, failing bool) (ok bool) {
	ok = true
	for _, s := range k.settlements() {
		ok = k.replace(ctx, s, failing) && ok
	}
	return ok
}

func (k *Keeper) askOrphans(ctx context.Context, due []homes.Record) {
	targets := make([]Target, len(due))
	for i, r := range due {
		targets[i] = Target{Process: r.Process, Address: r.Address}
	}
	results := k.ask(ctx, targets, func(to Target) string { return to.Boot })
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now() // not when the question was asked: the process may have ended since
	for i, r := range results {
		switch {
		case r.heard && !k.isSuccessor(r.answer, due[i].Process):
			k.orphans.Answered(due[i].Process, now, r.answer)
		case r.heard, r.refused:
			k.orphans.Ended(due[i].Process, now)
		}
	}
}

// isSuccessor reports whether this process itself has answered at the address of an earlier one of its node, which cannot be there any more
// then.
func (k *Keeper) isSuccessor(a homes.Answer, earlier homes.Process) bool {
	return earlier.Node == k.config.Self.Node && earlier.Boot != k.config.Self.Boot && a.Boot == k.config.Self.Boot
}

func (k *Keeper) settlements() []homes.Settlement {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.orphans.Settle(time.Now())
}

func (k *Keeper) replace(ctx context.Context, s homes.Settlement, failing bool) (ok bool) {
	limited, cancel := context.WithTimeout(ctx, replaceTimeout)
	defer cancel()
	done, err := k.config.Replace(limited, s.Old, s.New)
	switch {
	case err == nil && !done: // the process is registered, or its record has changed
		k.mu.Lock()
		k.orphans.Alive(s.Old.Process, time.Now())
		k.mu.Unlock()
	case err != nil && !failing && ctx.Err() == nil:
		k.config.Logger.Warn("cannot change the record of a process that is not registered; retrying", "process", s.Old.Process, "error", err)
	case done && s.WrittenOff:
		k.writtenOff.Add(1)
		k.config.Logger.Warn("requests of a silent server are written off; its engines may run more than their limit for a while",
			"process", s.Old.Process, "engines", len(s.Old.Owns), "held", s.Old.Held)
	case done:
		k.config.Logger.Info("settled the record of a process that is not registered", "process", s.Old.Process, "why", s.Why)
	}
	return done
}

func (k *Keeper) untilNextOrphan() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.orphans.Next()
	if next.IsZero() {
		return time.Minute
	}
	return max(time.Until(next), 20*time.Millisecond)
}

// runSiblings asks the other servers of the colo while the store does not answer, and the homes for which requests wait here.
func (k *Keeper) runSiblings(ctx context.Context) {
	tick := time.NewTicker(siblingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		silent := time.Since(k.config.Confirmed()) > storeSilence
		k.checkRight(k.config.MayGrant(), silent, time.Now())
		if silent {
			k.askForWords(ctx)
		} else {
			k.noteConfirmed(k.config.Confirmed())
		}
		k.askHomes(ctx)
	}
}

// checkRight sends requests to the siblings once the right to grant has lapsed for lapseLimit, until the right is back. A server that is
// alone, and lost its engines when it tried to register, owns all wanted engines again while the store is silent.
func (k *Keeper) checkRight(mayGrant, silent bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.placed.Load()
	switch {
	case mayGrant:
		k.lapsed = time.Time{}
		k.setReplacedLocked(false)
	case k.lapsed.IsZero():
		k.lapsed = now
	case now.Sub(k.lapsed) >= lapseLimit:
		k.setReplacedLocked(true)
	}
	assumes := mayGrant && silent && k.alone.Load() && !k.ownership.HasRights()
	if assumes {
		k.ownership.Assume()
		k.config.Logger.Warn("granting without etcd, which does not answer the registration")
	}
	if assumes || k.placed.Load() != before {
		k.grantLocked()
	}
}

// askForWords asks all other processes of the colo whether they reach the store.
func (k *Keeper) askForWords(ctx context.Context) {
	others := k.others()
	results := k.ask(ctx, others, func(Target) string { return "" })
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, r := range results {
		name := others[i].String()
		switch {
		case r.refused || r.heard && (!r.answer.Reaches || k.isSuccessor(r.answer, others[i].Process)):
			k.vouchers.Vouch(name, r.asked)
		case r.heard:
			k.vouchers.Deny(name)
		}
	}
	k.updateVouchedLocked()
}

// others returns all other processes that may be running; see othersLocked.
func (k *Keeper) others() []Target {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.othersLocked()
}

func (k *Keeper) noteConfirmed(at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.vouchers.Confirm(at)
}

// updateVouchedLocked updates until when all other processes vouch, and where requests go if the siblings may have taken over.
func (k *Keeper) updateVouchedLocked() {
	others := k.othersLocked()
	names := make([]string, len(others))
	for i, to := range others {
		names[i] = to.String()
	}
	until := k.vouchers.Until(names)
	k.vouchedUntil.Store(&until)
	if k.replaced { // by now, other siblings may be those that reach the store
		before := k.placed.Load()
		k.placeLocked(before)
		if !maps.Equal(k.placed.Load().nodes, before.nodes) {
			k.grantLocked()
		}
	}
}

// askHomes asks the homes for which requests wait here, and sends these back to the homes that may grant.
func (k *Keeper) askHomes(ctx context.Context) {
	p := k.placed.Load()
	siblings := p.siblings(k.config.Colo, k.config.Self.Node)
	if len(siblings) == 0 {
		return
	}
	waiting := map[string][]string{} // pools by node of their home
	for pool, node := range p.nodes {
		if k.config.StandIns(pool) > 0 {
			waiting[node] = append(waiting[node], pool)
		}
	}
	var asked []*fleet.Server
	for _, s := range siblings {
		if len(waiting[s.Node]) > 0 {
			asked = append(asked, s)
		}
	}
	for i, r := range k.ask(ctx, targetsOf(asked), func(Target) string { return "" }) {
		if !r.answer.MayGrant || r.answer.Drains { // it has not answered, or would send them on
			continue
		}
		for _, pool := range waiting[asked[i].Node] {
			k.config.Return(pool)
		}
	}
}

func targetsOf(servers []*fleet.Server) []Target {
	targets := make([]Target, len(servers))
	for i, s := range servers {
		targets[i] = targetOf(s)
	}
	return targets
}

func targetOf(s *fleet.Server) Target {
	return Target{Process: homes.Process{Node: s.Node, Boot: s.Boot}, Address: s.Address, Protocol: s.Protocol.Max}
}
