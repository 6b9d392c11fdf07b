package capture

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/fleet"
	"colonnade/internal/ctxtime"
)

// lookEvery is how often the captures are looked at.
const lookEvery = 200 * time.Millisecond

// Config configures a [Recorder]. All fields are required.
type Config struct {
	Node     string
	Captures func() []*fleet.Capture // the newest, sorted by name; those whose time is over, too
	Logger   *slog.Logger
}

// Recorder captures the requests of a node. Its methods may be called by several goroutines at once.
type Recorder struct {
	config Config
	memory memory // of the records of all sessions

	// active has the sessions by account; nil = there is no capture in force.
	active atomic.Pointer[map[string]*session]
}

// New returns a recorder; the caller calls Run.
func New(c Config) *Recorder { return &Recorder{config: c} }

// Begin begins the record of a request of an account. It returns nil if there is no capture of the account in force.
func (r *Recorder) Begin(account string) *Record {
	active := r.active.Load()
	if active == nil {
		return nil
	}
	s := (*active)[account]
	if s == nil {
		return nil
	}
	return s.begin()
}

// Run starts and ends sessions as the captures say, until ctx ends and all sessions have ended.
func (r *Recorder) Run(ctx context.Context) {
	var writing sync.WaitGroup
	defer writing.Wait()
	sessions := map[string]*session{} // by account
	defer func() { r.publish(nil) }()
	for {
		wanted := r.wanted(time.Now())
		for account, s := range sessions {
			if c := wanted[account]; c == nil || *c != s.capture {
				s.stop()
				delete(sessions, account)
			}
		}
		for account, c := range wanted {
			if sessions[account] == nil {
				s := newSession(*c, r.config.Node, r.config.Logger, &r.memory)
				sessions[account] = s
				writing.Go(func() { s.run(ctx) })
			}
		}
		r.publish(sessions)
		if !ctxtime.Sleep(ctx, lookEvery) {
			return
		}
	}
}

// wanted returns the captures that are in force at a time, by account. Of several for one account, the first one by name is.
func (r *Recorder) wanted(now time.Time) map[string]*fleet.Capture {
	wanted := map[string]*fleet.Capture{}
	for _, c := range r.config.Captures() {
		if wanted[c.Account] == nil && !c.EndedAt(now) {
			wanted[c.Account] = c
		}
	}
	return wanted
}

func (r *Recorder) publish(sessions map[string]*session) {
	if len(sessions) == 0 {
		r.active.Store(nil)
		return
	}
	sessions = maps.Clone(sessions)
	r.active.Store(&sessions)
}

// States returns the captures in force, sorted by name.
func (r *Recorder) States() []State {
	active := r.active.Load()
	if active == nil {
		return nil
	}
	var states []State
	for _, s := range *active {
		states = append(states, s.state())
	}
	slices.SortFunc(states, func(a, b State) int { return cmp.Compare(a.Name, b.Name) })
	return states
}
