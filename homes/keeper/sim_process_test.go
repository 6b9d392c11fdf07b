package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/homes/keeper"
	"colonnade/permits"
)

const (
	ttl      = 5 * time.Second
	validity = ttl * 9 / 10
)

// process is one process of a colo server: a keeper, pools and permits as they are, and a model of the lease and its fence.
type process struct {
	homes.Process
	sim      *simulation
	address  string
	ended    []string
	put      uint64 // number of the last put; guarded by the store's mutex
	cut      atomic.Bool
	draining atomic.Bool

	keeper  *keeper.Keeper
	manager *admission.Manager
	kill    context.CancelFunc
	killed  context.Context
	forget  chan struct{}
	running sync.WaitGroup

	confirmed atomic.Pointer[time.Time]
}

// start starts a process of a node, whose earlier ones have ended.
func (s *simulation) start(node string) {
	ended := slices.Clone(s.boots[node])
	p := &process{
		Process: homes.Process{Node: node, Boot: fmt.Sprintf("%s-%d", node, len(ended)+1)}, sim: s, address: node, ended: ended,
		forget: make(chan struct{}, 1),
	}
	s.boots[node], s.all = append(s.boots[node], p.Boot), append(s.all, p)
	p.confirmed.Store(new(time.Time))
	p.killed, p.kill = context.WithCancel(context.Background())
	healthy := func(context.Context, *fleet.Endpoint) error { return nil }
	p.manager = admission.NewManager("ams", healthy, slog.New(slog.DiscardHandler))
	p.manager.SetFence(time.Time{})
	p.keeper = keeper.New(keeper.Config{
		Self: p.Process, Colo: "ams", Ended: ended, TTL: ttl, Logger: slog.New(slog.DiscardHandler),
		SetGrants: p.manager.SetGrants, MayGrant: p.manager.GrantsEnabled, Drains: func() bool { return false }, Held: p.manager.Held, Limits: p.manager.Limits,
		StandIns: p.manager.StandIns, Return: p.manager.RefuseStandIns, MarkDead: func(...string) {},
		Confirmed: func() time.Time { return *p.confirmed.Load() },
		Put: func(_ context.Context, _ int64, owns, held map[string]int) (int64, error) {
			return s.store.putRecord(p, owns, held)
		},
		Replace: func(_ context.Context, old homes.Record, next *homes.Record) (bool, error) {
			return s.store.replace(p, old, next)
		},
		Forget:  func() { p.wake() },
		Ask:     p.ask,
		Refused: func(err error) bool { return errors.Is(err, errRefused) },
	})
	s.setProcess(node, p)
	p.running.Go(func() { _ = p.manager.Run(p.killed) })
	p.running.Go(func() { _ = p.keeper.Run(p.killed) })
	p.running.Go(func() { s.store.follow(p.killed, p) })
	p.running.Go(p.keepLease)
}

func (p *process) wake() {
	select {
	case p.forget <- struct{}{}:
	default:
	}
}

// delay draws how late the process sees a change.
func (p *process) delay() time.Duration { return time.Duration(rand.IntN(20)) * time.Millisecond }

// apply takes a new table.
func (p *process) apply(servers []*fleet.Server) {
	table := p.sim.table(servers)
	p.manager.Apply(table)
	p.keeper.Apply(table)
}

// keepLease registers the process and renews its registration, until it is killed or has left.
func (p *process) keepLease() {
	tick := time.NewTicker(ttl / 20)
	defer tick.Stop()
	var renewed time.Time
	registered := false
	for {
		select {
		case <-p.killed.Done():
			p.manager.SetFence(time.Time{})
			return
		case <-p.forget:
			registered, renewed = false, time.Time{}
		case <-tick.C:
		}
		if time.Since(renewed) < ttl/5 {
			p.heartbeat(registered)
			continue
		}
		renewed = time.Now()
		switch {
		case !registered:
			registered = p.register()
		case !p.renew():
			registered, renewed = false, time.Time{}
		}
		if registered && p.draining.Load() && p.leave() {
			return
		}
	}
}

// register registers the process, and reports whether it is registered.
func (p *process) register() bool {
	asked := time.Now()
	p.manager.SetFence(time.Time{})
	held := p.keeper.StopGrants()
	revision, err := p.sim.store.register(p, held)
	if err != nil || revision == 0 {
		return false
	}
	p.manager.Renew()
	p.keeper.Registered(revision)
	p.confirm(asked)
	return true
}

func (p *process) confirm(asked time.Time) {
	p.confirmed.Store(&asked)
	p.manager.SetFence(asked.Add(validity))
}

// renew renews the lease; false means that the process is not registered any more.
func (p *process) renew() bool {
	asked := time.Now()
	stands, err := p.sim.store.renew(p)
	if err == nil && stands {
		p.confirm(asked)
	}
	return err != nil || stands
}

// heartbeat extends the fence while the store does not answer.
func (p *process) heartbeat(registered bool) {
	confirmed := *p.confirmed.Load()
	switch {
	case !registered || time.Since(confirmed) < ttl/2 || !p.manager.GrantsEnabled():
	case p.keeper.Alone():
		p.manager.SetFence(time.Now().Add(validity))
	default:
		if until := p.keeper.Vouched(); until.After(confirmed.Add(validity)) {
			p.manager.SetFence(until)
		}
	}
}

// leave ends a process that drains, once it owns and holds nothing.
func (p *process) leave() bool {
	if p.keeper.Stats().Owned+p.keeper.Stats().Wanted+len(p.manager.Held()) > 0 || p.sim.store.leave(p) != nil {
		return false
	}
	p.sim.setProcess(p.Node, nil)
	p.kill()
	return true
}

var errRefused = errors.New("connection refused")

// ask asks the process that has an address.
func (p *process) ask(ctx context.Context, to keeper.Target, about string) (homes.Answer, error) {
	time.Sleep(p.delay())
	other := p.sim.process(to.Address)
	if other == nil {
		return homes.Answer{}, errRefused
	}
	return other.keeper.Answer(p.Process, about), ctx.Err()
}

// serve serves a request, as a colo server does. A request that has to go elsewhere has moved to a node.
func (p *process) serve(ctx context.Context, pool string, r permits.Request) (moved string, err error) {
	if home := p.keeper.Home(pool); !home.Here {
		return home.Node, nil
	}
	of, ok := p.manager.Pool(pool)
	if !ok {
		return "", errors.New("no such pool yet")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.killed, func() { cancel(errRefused) })()
	grant, err := of.Acquire(ctx, &r)
	var refused *permits.Refusal
	if errors.As(err, &refused) && refused.Reason == permits.Moved {
		return p.keeper.Home(pool).Node, nil
	}
	if err != nil {
		return "", err
	}
	defer grant.Release()
	return "", p.sim.run(p, grant.Endpoint.URL)
}
