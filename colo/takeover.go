package colo

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
	"colonnade/forwarding/peer"
	"colonnade/homes"
)

const (
	copyInterval = 10 * time.Second // between two copies of what the home of a pool has learned, or
	copyShare    = 100              // times as long as the last one took, if that is more: what is known of prompts may be large
	copyTimeout  = time.Second      // of one question
	copiesAtOnce = 4                // questions
)

// takeovers has what moves with the homes of pools: the server that would be the next home of a pool keeps a copy of what its home has
// learned, and takes that over if it becomes the home and the home before does not answer.
type takeovers struct {
	wake    chan struct{}
	copying chan struct{} // has an element while copies are made

	mu      sync.Mutex // guards the fields below
	homes   map[string]string
	ceased  map[string]time.Time // when this server was the home of a pool last
	copies  map[string]learnedCopy
	due     map[string]time.Time // when a pool may be copied again
	answers map[string]answered  // which server has asked last what this one has learned of a pool
}

// answered is an answer to a server that asked what was learned of a pool.
type answered struct {
	to string // node
	at time.Time
}

// learnedCopy is what a home has learned, and when that was in force.
type learnedCopy struct {
	*admission.Learned
	at time.Time
}

func newTakeovers() takeovers {
	return takeovers{
		wake: make(chan struct{}, 1), copying: make(chan struct{}, 1),
		homes: map[string]string{}, ceased: map[string]time.Time{}, copies: map[string]learnedCopy{}, due: map[string]time.Time{},
		answers: map[string]answered{},
	}
}

// signal makes runTakeovers look which pools have another home.
func (t *takeovers) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// runTakeovers follows the homes of pools until ctx ends. Nothing waits for it: a new home grants at once.
func (s *Server) runTakeovers(ctx context.Context) {
	if s.config.Homes == nil {
		return
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	tick := time.NewTicker(copyInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.takeovers.wake:
		case <-tick.C:
			asking.Go(func() { s.copyLearned(ctx) })
		}
		for pool, before := range s.begunHomes() {
			asking.Go(func() { s.takeOver(ctx, pool, before) })
		}
	}
}

// begunHomes returns the pools that have their home here since the last call, each with the node that was their home before; empty if that
// is not known.
func (s *Server) begunHomes() map[string]string {
	t := &s.takeovers
	t.mu.Lock()
	defer t.mu.Unlock()
	now, begun, known := time.Now(), map[string]string{}, map[string]string{}
	for _, pool := range s.table().Pools() {
		name := pool.Name
		home, before := s.home(name), t.homes[name]
		switch {
		case home.Here && before != s.config.Node:
			begun[name] = before
		case !home.Here && before == s.config.Node:
			t.ceased[name] = now
		}
		if known[name] = home.Node; home.Here {
			known[name] = s.config.Node
		}
	}
	t.homes = known
	forget(t.copies, known)
	forget(t.ceased, known)
	forget(t.due, known)
	forget(t.answers, known)
	return begun
}

// forget drops the pools that have no home, since they are gone.
func forget[V any](of map[string]V, homeOf map[string]string) {
	maps.DeleteFunc(of, func(pool string, _ V) bool { return homeOf[pool] == "" })
}

// takeOver takes over what the home before has learned of a pool, if it is registered and answers, or else what was copied of it. If the home before
// is not known, takeOver asks the server that would be home without this one, which has a copy at least.
func (s *Server) takeOver(ctx context.Context, pool, before string) {
	others := slices.DeleteFunc(slices.Clone(s.table().Registered(s.config.Colo)), func(o *fleet.Server) bool { return o.Node == s.config.Node })
	at := slices.IndexFunc(others, func(o *fleet.Server) bool { return o.Node == before })
	asked, found := homes.Home(pool, others)
	if at >= 0 {
		asked, found = others[at], true
	}
	var known learnedCopy
	if found && (at >= 0 || before == "") {
		known = s.askLearned(ctx, pool, asked)
	}
	if known.Learned == nil {
		known = s.takeovers.copyOf(pool)
	}
	if known.Learned == nil {
		return
	}
	age := time.Since(known.at)
	a := s.pools.Adopt(pool, known.Learned, age)
	s.config.Logger.Info("took over what was learned of a pool", "pool", pool, "from", before, "age", age.Round(time.Millisecond), "mean_hold", a.Holds,
		"engines", a.Engines, "blocks", a.Blocks)
}

// askLearned returns what another server has learned of a pool; nothing if it does not say.
func (s *Server) askLearned(ctx context.Context, pool string, of *fleet.Server) learnedCopy {
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	began := time.Now()
	text, err := s.client.Learned(ctx, peer.Server{Colo: s.config.Colo, Node: of.Node, Address: of.Address, Boot: of.Boot, Protocol: of.Protocol.Max}, pool,
		admission.MaxLearned)
	if err == nil {
		var l *admission.Learned
		if l, err = admission.DecodeLearned(text); err == nil {
			return learnedCopy{l, began.Add(-l.Age())}
		}
	}
	s.config.Logger.Debug("another server does not say what it has learned of a pool", "pool", pool, "server", of.Node, "error", err)
	return learnedCopy{}
}

// copyLearned copies what is learned of each pool of which this server would be the next home. It does nothing while an earlier call runs.
func (s *Server) copyLearned(ctx context.Context) {
	t := &s.takeovers
	select {
	case t.copying <- struct{}{}:
		defer func() { <-t.copying }()
	default:
		return
	}
	table := s.table()
	registered := table.Registered(s.config.Colo)
	var asking sync.WaitGroup
	defer asking.Wait()
	slots := make(chan struct{}, copiesAtOnce)
	for _, pool := range table.Pools() {
		ranked := homes.Rank(pool.Name, registered)
		if len(ranked) < 2 || ranked[1].Node != s.config.Node || !t.isDue(pool.Name) {
			continue
		}
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			known := s.askLearned(ctx, pool.Name, ranked[0])
			t.keep(pool.Name, known, began.Add(copyShare*time.Since(began)))
		})
	}
}

func (t *takeovers) isDue(pool string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !time.Now().Before(t.due[pool])
}

// keep keeps a copy, if there is one, and when the next may be made.
func (t *takeovers) keep(pool string, known learnedCopy, next time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.due[pool] = next; known.Learned != nil {
		t.copies[pool] = known
	}
}

func (t *takeovers) copyOf(pool string) learnedCopy {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.copies[pool]
}

// copyAge returns the age in seconds of the copy of a pool; nil if there is none.
func (t *takeovers) copyAge(pool string) *float64 {
	known := t.copyOf(pool)
	if known.Learned == nil {
		return nil
	}
	return new(time.Since(known.at).Seconds())
}

// noteAnswer notes that a server was answered what this one has learned of a pool.
func (t *takeovers) noteAnswer(pool, to string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.homes[pool] != "" { // else it would never be forgotten
		t.answers[pool] = answered{to, time.Now()}
	}
}

// awaitsQuestion reports whether the new home of a pool that had its home here until a moment ago has still to ask what this server has learned of
// it. A home that has made its copy of late need not ask.
func (s *Server) awaitsQuestion() bool {
	t := &s.takeovers
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for pool, known := range t.homes {
		if known != s.config.Node && now.Sub(t.ceased[pool]) > copyInterval {
			continue
		}
		home, last := s.home(pool), t.answers[pool]
		if !home.Here && !home.Dead && (last.to != home.Node || now.Sub(last.at) > copyInterval) {
			return true
		}
	}
	return false
}

// learned returns what this server has learned of a pool while it was its home, or a copy of what another home has learned if that is newer,
// as JSON of at most so many bytes; nil if it knows nothing of late.
func (s *Server) learned(pool string, now time.Time, most int) []byte {
	t := &s.takeovers
	t.mu.Lock()
	at, was := t.ceased[pool]
	if t.homes[pool] == s.config.Node {
		at, was = now, true
	}
	known := t.copies[pool]
	t.mu.Unlock()
	if was && (known.Learned == nil || at.After(known.at)) {
		if own := s.pools.Learned(pool); own != nil {
			known = learnedCopy{own, at}
		}
	}
	if known.Learned == nil || now.Sub(known.at) > admission.MaxLearnedAge {
		return nil
	}
	answer := *known.Learned
	answer.AgeMillis = max(0, now.Sub(known.at).Milliseconds())
	return answer.Encode(most)
}
