package gossip

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// maxJoins bounds the attempts to join at one time.
const maxJoins = 4

// rejoin joins the registered siblings that are not alive here, again and again: the library does not heal a split that has lasted
// longer than it gossips to the dead.
type rejoin struct {
	gossip   *Gossip
	list     *memberlist.Memberlist
	logger   *slog.Logger
	attempts map[process]*attempt
	joins    sync.WaitGroup
	tokens   chan struct{}
}

// attempt is what was tried for one sibling since it was last alive.
type attempt struct {
	begun  time.Time // the first one
	last   time.Time
	failed chan error // at most one, of the last
	warned bool
}

func newRejoin(g *Gossip, list *memberlist.Memberlist) *rejoin {
	return &rejoin{gossip: g, list: list, logger: g.config.Logger, attempts: map[process]*attempt{}, tokens: make(chan struct{}, maxJoins)}
}

// run looks at the registrations until ctx is done, and waits for what it has begun.
func (r *rejoin) run(ctx context.Context) {
	defer r.joins.Wait()
	poll := time.NewTicker(r.gossip.timings.poll)
	defer poll.Stop()
	for {
		r.look(ctx, time.Now())
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}

// look begins an attempt for each sibling that needs one.
func (r *rejoin) look(ctx context.Context, now time.Time) {
	missing := map[process]*attempt{}
	for _, s := range r.gossip.config.Siblings() {
		p := process{s.Node, s.Boot}
		if alive, _ := r.gossip.Alive(s.Node, s.Boot); alive || p == r.gossip.members.self || s.Address == "" {
			continue
		}
		a := r.attempts[p]
		if a == nil {
			a = &attempt{begun: now, failed: make(chan error, 1)}
		}
		missing[p] = a
		r.warn(s, a, now)
		if a.last.IsZero() || now.Sub(a.last) >= r.gossip.timings.rejoin {
			r.begin(ctx, s, a, now)
		}
	}
	r.attempts = missing
}

// warn logs once that a sibling cannot be joined although it stays registered.
func (r *rejoin) warn(s Sibling, a *attempt, now time.Time) {
	select {
	case err := <-a.failed:
		if !a.warned && now.Sub(a.begun) >= r.gossip.timings.warn {
			a.warned = true
			r.logger.Warn("gossip does not reach a registered sibling; its end will be noticed later", "node", s.Node, "address", s.Address, "error", err)
		}
	default:
	}
}

// begin tries to join one sibling, unless too many attempts are under way: it then has its turn at a later look.
func (r *rejoin) begin(ctx context.Context, s Sibling, a *attempt, now time.Time) {
	select {
	case r.tokens <- struct{}{}:
	default:
		return
	}
	a.last = now
	r.joins.Go(func() {
		defer func() { <-r.tokens }()
		if err := r.join(ctx, s.Address); err != nil {
			select {
			case a.failed <- err:
			default:
			}
		}
	})
}

// join exchanges the state with a sibling, at the first of its addresses that answers.
func (r *rejoin) join(ctx context.Context, address string) error {
	addresses, err := resolve(ctx, address, r.gossip.timings.dial)
	if err != nil {
		return err
	}
	for _, a := range addresses[:min(len(addresses), 3)] {
		if _, err = r.list.Join([]string{a.String()}); err == nil {
			return nil
		}
	}
	return err
}
