package kvevents

import (
	"context"
	"sync"
	"time"
)

// noteInterval is the least time between two calls of note.
const noteInterval = 200 * time.Millisecond

// Follow reads the events of one engine until ctx ends, from an address for each of its ranks. It calls note with what they say together, when
// that has changed.
func Follow(ctx context.Context, addresses []string, note func(State)) {
	changed := make(chan struct{}, 1)
	var running sync.WaitGroup
	defer running.Wait()
	followers := make([]*Follower, len(addresses))
	for i, address := range addresses {
		followers[i] = New(Config{Address: address, changed: changed})
		running.Go(func() { followers[i].Run(ctx) })
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for last := (State{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		if s := sum(followers); s != last {
			last = s
			note(s)
		}
		pause.Reset(noteInterval)
	}
}

// sum returns what the events of all ranks say. Requests go to any rank, so a rank that forgets counts as though all did.
func sum(followers []*Follower) (all State) {
	all = State{Known: true, Evicting: true, Connected: true}
	for _, f := range followers {
		s := f.State()
		all.Tokens, all.Events, all.Gaps = all.Tokens+s.Tokens, all.Events+s.Events, all.Gaps+s.Gaps
		all.Clears, all.Restarts = all.Clears+s.Clears, all.Restarts+s.Restarts
		all.Known, all.Evicting, all.Connected = all.Known && s.Known, all.Evicting && s.Evicting, all.Connected && s.Connected
		if all.Error == "" {
			all.Error = s.Error
		}
	}
	return all
}
