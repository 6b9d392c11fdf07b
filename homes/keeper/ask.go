package keeper

import (
	"context"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/homes"
)

const (
	answerTimeout   = time.Second            // of a question, by this server's clock, which runs on while the process is stopped
	siblingInterval = 500 * time.Millisecond // between questions to a sibling
	lapseLimit      = time.Second            // of a lapsed right, after which requests are sent to the siblings
	storeSilence    = 2 * time.Second        // without an answer of the store, after which the siblings are asked
	replaceTimeout  = 2 * time.Second
)

// result is the result of one question.
type result struct {
	asked   time.Time
	answer  homes.Answer
	heard   bool // there is an answer
	refused bool
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.look:
		case <-timer.C:
		}
		k.askOrphans(ctx)
		for _, s := range k.settlements() {
			k.replace(ctx, s)
		}
		k.config.MarkDead(k.deadServers()...)
		timer.Reset(k.untilNextOrphan())
	}
}

func (k *Keeper) askOrphans(ctx context.Context) {
	k.mu.Lock()
	due := k.orphans.Due(time.Now())
	k.mu.Unlock()
	targets := make([]Target, len(due))
	for i, r := range due {
		targets[i] = Target{r.Process, r.Address}
	}
	results := k.ask(ctx, targets, func(to Target) string { return to.Boot })
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now() // not when the question was asked: the process may have ended since
	for i, r := range results {
		switch {
		case r.heard:
			k.orphans.Heard(due[i].Process, now, r.answer)
		case r.refused:
			k.orphans.Ended(due[i].Process, now)
		}
	}
}

// deadServers returns the keys of servers whose lease has expired and whose records are settled.
func (k *Keeper) deadServers() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.placed.Load().table
	alive := map[homes.Process]bool{}
	for _, s := range t.Registered(k.config.Colo) {
		alive[homes.Process{Node: s.Node, Boot: s.Boot}] = true
	}
	for _, r := range k.ownership.Records() {
		alive[r.Process] = true
	}
	var keys []string
	for _, s := range t.Servers(k.config.Colo) {
		if s.Node != k.config.Self.Node && !alive[homes.Process{Node: s.Node, Boot: s.Boot}] {
			keys = append(keys, fleet.KindServer.Key(s.Colo, s.Node))
		}
	}
	return keys
}

func (k *Keeper) settlements() []homes.Settlement {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.orphans.Settle(time.Now())
}

func (k *Keeper) replace(ctx context.Context, s homes.Settlement) {
	limited, cancel := context.WithTimeout(ctx, replaceTimeout)
	defer cancel()
	done, err := k.config.Replace(limited, s.Old, s.New)
	switch {
	case err == nil && !done: // the process is registered, or its record has changed
		k.mu.Lock()
		k.orphans.Spoke(s.Old.Process, time.Now())
		k.mu.Unlock()
	case err != nil && ctx.Err() == nil:
		k.config.Logger.Warn("cannot change the record of a process that is not registered; retrying", "process", s.Old.Process, "error", err)
	case done && s.WrittenOff:
		k.writtenOff.Add(1)
		k.config.Logger.Warn("requests of a silent server are written off; its engines may run more than their limit for a while",
			"process", s.Old.Process, "engines", len(s.Old.Owns), "held", s.Old.Held)
	case done:
		k.config.Logger.Info("settled the record of a process that is not registered", "process", s.Old.Process, "why", s.Why)
	}
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
		k.noteRight(k.config.MayGrant(), time.Now())
		placed := k.placed.Load()
		siblings := placed.siblings(k.config.Colo, k.config.Self.Node)
		if len(siblings) == 0 {
			continue
		}
		if confirmed := k.config.Confirmed(); time.Since(confirmed) > storeSilence {
			k.askForWords(ctx, siblings)
		} else {
			k.noteConfirmed(confirmed)
		}
		k.askHomes(ctx, placed, siblings)
	}
}

// noteRight sends requests to the siblings once the right to grant has lapsed for a while, until there is one again.
func (k *Keeper) noteRight(mayGrant bool, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.replaced
	switch {
	case mayGrant:
		k.lapsed = time.Time{}
		k.setReplacedLocked(false)
	case k.lapsed.IsZero():
		k.lapsed = now
	case now.Sub(k.lapsed) >= lapseLimit:
		k.setReplacedLocked(true)
	}
	if k.replaced != before {
		k.grantLocked()
	}
}

// askForWords asks all siblings whether they reach the store.
func (k *Keeper) askForWords(ctx context.Context, siblings []*fleet.Server) {
	results := k.ask(ctx, targetsOf(siblings), func(Target) string { return "" })
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, r := range results {
		switch {
		case r.refused || r.heard && !r.answer.Reaches:
			k.vouchers.Vouch(siblings[i].Node, r.asked)
		case r.heard:
			k.vouchers.Deny(siblings[i].Node)
		}
	}
	k.noteWordsLocked(siblings)
}

func (k *Keeper) noteConfirmed(at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.vouchers.Confirm(at)
}

func (k *Keeper) noteWordsLocked(siblings []*fleet.Server) {
	nodes := make([]string, len(siblings))
	for i, s := range siblings {
		nodes[i] = s.Node
	}
	until := k.vouchers.Until(nodes)
	k.vouchedUntil.Store(&until)
}

// askHomes asks the homes for which requests wait here, and sends these back to the homes that answer.
func (k *Keeper) askHomes(ctx context.Context, p *placement, siblings []*fleet.Server) {
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
		if !r.heard {
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
		targets[i] = Target{homes.Process{Node: s.Node, Boot: s.Boot}, s.Address}
	}
	return targets
}
