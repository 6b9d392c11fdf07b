package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// running is a run that goes on.
type running struct {
	options  Options
	size     size
	gateways []*Gateway
	accounts [][]Account // by gateway: they differ by their keys
	began    time.Time
	ids      ids

	arenas     map[kind][]*arena
	capacities map[shape]float64

	planned time.Duration // how long it will take

	mu  sync.Mutex // guards the field below, and calls of Progress
	now Progress
}

func newRunning(o Options, contests []Contest) *running {
	r := &running{options: o, size: full, began: time.Now(), arenas: map[kind][]*arena{}, capacities: map[shape]float64{}}
	if o.Quick {
		r.size = brief
	}
	for i := range o.Gateways {
		r.gateways = append(r.gateways, &o.Gateways[i])
	}
	if o.Remote != nil {
		r.gateways = append(r.gateways, o.Remote.gateway())
	}
	for range r.gateways {
		r.accounts = append(r.accounts, accounts())
	}
	r.planned = 3 * time.Second // to start all, and to measure capacity
	if o.Remote != nil && len(o.Remote.Engines) == 0 {
		r.planned += climbs * r.size.measure
	}
	for i := range contests {
		r.planned += r.plan(&contests[i])
	}
	return r
}

// plan is how long a contest will take.
func (r *running) plan(c *Contest) time.Duration {
	d := c.lasts(r.size)
	if !r.size.rough {
		d *= time.Duration(len(r.gateways))
	}
	return d
}

// hold has every gateway play a scenario: in turn, so that they do not disturb each other; or side by side where it
// must be quick.
func (r *running) hold(ctx context.Context, c *Contest) (Scenario, error) {
	r.set(Progress{Scenario: c.Name, Doing: "measuring capacity"})
	defer r.tick()()
	arenas := r.arenas[c.kind]
	stages := make([]*stage, len(arenas))
	for i, a := range arenas {
		var err error
		if stages[i], err = r.stage(ctx, c, a); err != nil {
			return Scenario{}, err
		}
	}
	findings, errs := make([]finding, len(arenas)), make([]error, len(arenas))
	var all sync.WaitGroup
	for i, s := range stages {
		play := func() { findings[i], errs[i] = s.perform(ctx) }
		if r.size.rough {
			all.Go(play)
			continue
		}
		if play(); errs[i] != nil {
			break
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return Scenario{}, err
	}
	return c.scenario(r.size, findings), nil
}

// kind is what gateways a scenario plays on.
type kind struct {
	longQueue bool // that is far longer than any should be
	untaught  bool // by other scenarios, from which they would know how long answers take
}

// start starts all gateways, of the kinds that the scenarios need.
func (r *running) start(ctx context.Context, contests []Contest) error {
	r.set(Progress{Doing: "starting"})
	defer r.tick()()
	var all sync.WaitGroup
	var failures [][]error
	started := contests[0].kind
	for i := range contests {
		kind := contests[i].kind
		if r.arenas[kind] != nil {
			continue
		}
		arenas, failed := make([]*arena, len(r.gateways)), make([]error, len(r.gateways))
		r.arenas[kind] = arenas
		for i := range r.gateways {
			if r.remote(i) && kind != started {
				continue // it is one, as it is
			}
			all.Go(func() { arenas[i], failed[i] = r.startOne(ctx, i, kind) })
		}
		failures = append(failures, failed)
	}
	all.Wait()
	for _, arenas := range r.arenas {
		for i, a := range arenas {
			if a == nil && r.remote(i) {
				arenas[i] = r.arenas[started][i]
			}
		}
	}
	return errors.Join(slices.Concat(failures...)...)
}

// remote says whether a gateway runs already.
func (r *running) remote(i int) bool { return r.gateways[i].Start == nil }

// startOne makes an arena of a gateway, and returns once it serves.
func (r *running) startOne(ctx context.Context, i int, k kind) (*arena, error) {
	a := &arena{gateway: r.gateways[i], ids: &r.ids, tell: r.tell, patience: r.size.quiet, keys: map[string]string{}}
	var err error
	if r.remote(i) {
		err = a.find(r.options.Remote)
	} else {
		err = r.build(ctx, a, i, k)
	}
	if err == nil {
		err = a.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

// build starts the engines of an arena, and its gateway.
func (r *running) build(ctx context.Context, a *arena, i int, k kind) (err error) {
	addresses := slices.Repeat([]string{"127.0.0.1:0"}, r.size.engines)
	if a.engines, err = startEngines(addresses, r.size.slots); err != nil {
		return err
	}
	a.engines.pace(r.size.pace) // also for what comes before all that is measured: a gateway may learn from it
	name := fmt.Sprintf("bench-%d", i+1)
	if k.longQueue {
		name += "-long"
	}
	if k.untaught {
		name += "-untaught"
	}
	setup := Setup{
		Engines: a.engines.setup(), Accounts: r.accounts[i], Queue: r.size.queue(k.longQueue),
		Model: name, Dir: filepath.Join(r.options.Dir, name),
	}
	if err := os.MkdirAll(setup.Dir, 0o700); err != nil {
		return err
	}
	for _, account := range setup.Accounts {
		a.keys[account.Name] = account.Key
	}
	if a.target, err = a.gateway.Start(ctx, setup); err != nil {
		return fmt.Errorf("cannot start the gateway %s: %w", a.gateway.Name, err)
	}
	a.client, err = newClient(a.target.URL, setup.Model)
	return err
}

// stop ends what runs.
func (r *running) stop() error {
	var all []error
	stopped := map[*arena]bool{nil: true}
	for _, a := range slices.Concat(slices.Collect(maps.Values(r.arenas))...) {
		if !stopped[a] {
			all = append(all, a.stop())
			stopped[a] = true
		}
	}
	return errors.Join(all...)
}

// capacity is how many requests of a shape the engines of a gateway answer per second. All that are ours are alike, so
// it is measured once.
func (r *running) capacity(ctx context.Context, a *arena, sh shape) (float64, error) {
	if c, ok := r.capacities[sh]; ok {
		return c, nil
	}
	var c float64
	var err error
	if a.engines != nil {
		c, err = capacityOf(ctx, a, sh, max(r.size.measure, 5*sh.pace.holds(sh.tokens)))
	} else {
		c, err = climb(ctx, a, sh, a.allKeys(), r.size.measure)
	}
	if err == nil && c == 0 {
		err = errors.New("nothing was answered while capacity was measured")
	}
	r.capacities[sh] = c
	return c, err
}

func (a *arena) allKeys() []string { return slices.Compact(slices.Sorted(maps.Values(a.keys))) }

// tell says what is going on.
func (r *running) tell(gateway, doing string) {
	if r.size.rough {
		gateway = "" // all at once
	}
	r.set(Progress{Gateway: gateway, Doing: doing})
}

func (r *running) set(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Scenario == "" {
		p.Scenario = r.now.Scenario
	}
	r.now = p
	r.progressLocked()
}

func (r *running) progressLocked() {
	if r.options.Progress == nil {
		return
	}
	p := r.now
	spent := time.Since(r.began)
	p.Left = max(0, r.planned-spent)
	p.Done = min(1, spent.Seconds()/max(spent, r.planned).Seconds())
	r.options.Progress(p)
}

// tick reports each second, until it is stopped.
func (r *running) tick() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
				r.mu.Lock()
				r.progressLocked()
				r.mu.Unlock()
			}
		}
	}()
	return func() { close(done); <-ended }
}
