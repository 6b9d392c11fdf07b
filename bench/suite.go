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

// suite is a run that goes on.
type suite struct {
	options  Options
	preset   preset
	gateways []*Gateway
	accounts [][]Account // by gateway: they differ by their keys
	began    time.Time
	ids      idSource

	runners    map[variant][]*runner
	capacities map[requestShape]float64

	planned time.Duration // how long it will take

	mu  sync.Mutex // guards the field below, and calls of Progress
	now Progress
}

func newSuite(o Options, contests []Scenario) *suite {
	r := &suite{options: o, preset: fullRun, began: time.Now(), runners: map[variant][]*runner{}, capacities: map[requestShape]float64{}}
	if o.Quick {
		r.preset = quickRun
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
		r.planned += searchSteps * r.preset.capacityTime
	}
	for i := range contests {
		r.planned += r.duration(&contests[i])
	}
	return r
}

// duration is how long a contest will take.
func (r *suite) duration(c *Scenario) time.Duration {
	d := c.duration(r.preset)
	if !r.preset.quick {
		d *= time.Duration(len(r.gateways))
	}
	return d
}

// runScenario has every gateway play a scenario: in turn, so that they do not disturb each other; or side by side where it
// must be quick.
func (r *suite) runScenario(ctx context.Context, c *Scenario) (ScenarioResult, error) {
	r.set(Progress{Scenario: c.Name, Doing: "measuring capacity"})
	defer r.tick()()
	arenas := r.runners[c.variant]
	stages := make([]*scenarioRun, len(arenas))
	for i, a := range arenas {
		var err error
		if stages[i], err = r.prepare(ctx, c, a); err != nil {
			return ScenarioResult{}, err
		}
	}
	findings, errs := make([]findings, len(arenas)), make([]error, len(arenas))
	var all sync.WaitGroup
	for i, s := range stages {
		play := func() { findings[i], errs[i] = s.run(ctx) }
		if r.preset.quick {
			all.Go(play)
			continue
		}
		if play(); errs[i] != nil {
			break
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return ScenarioResult{}, err
	}
	return c.result(r.preset, findings), nil
}

// variant is what gateways a scenario plays on.
type variant struct {
	longQueue bool // that is far longer than any should be
	fresh     bool // by other scenarios, from which they would know how long answers take
}

// start starts all gateways, of the kinds that the scenarios need.
func (r *suite) start(ctx context.Context, contests []Scenario) error {
	r.set(Progress{Doing: "starting"})
	defer r.tick()()
	var all sync.WaitGroup
	var failures [][]error
	started := contests[0].variant
	for i := range contests {
		kind := contests[i].variant
		if r.runners[kind] != nil {
			continue
		}
		arenas, failed := make([]*runner, len(r.gateways)), make([]error, len(r.gateways))
		r.runners[kind] = arenas
		for i := range r.gateways {
			if r.isRemote(i) && kind != started {
				continue // it is one, as it is
			}
			all.Go(func() { arenas[i], failed[i] = r.startRunner(ctx, i, kind) })
		}
		failures = append(failures, failed)
	}
	all.Wait()
	for _, arenas := range r.runners {
		for i, a := range arenas {
			if a == nil && r.isRemote(i) {
				arenas[i] = r.runners[started][i]
			}
		}
	}
	return errors.Join(slices.Concat(failures...)...)
}

// isRemote says whether a gateway runs already.
func (r *suite) isRemote(i int) bool { return r.gateways[i].Start == nil }

// startRunner makes an arena of a gateway, and returns once it serves.
func (r *suite) startRunner(ctx context.Context, i int, k variant) (*runner, error) {
	a := &runner{gateway: r.gateways[i], ids: &r.ids, progress: r.progress, leakWait: r.preset.leakWait, keys: map[string]string{}}
	var err error
	if r.isRemote(i) {
		err = a.connect(r.options.Remote)
	} else {
		err = r.startGateway(ctx, a, i, k)
	}
	if err == nil {
		err = a.awaitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

// startGateway starts the engines of an arena, and its gateway.
func (r *suite) startGateway(ctx context.Context, a *runner, i int, k variant) (err error) {
	addresses := slices.Repeat([]string{"127.0.0.1:0"}, r.preset.engines)
	if a.engines, err = startEngines(addresses, r.preset.slots); err != nil {
		return err
	}
	a.engines.setTiming(r.preset.timing) // also for what comes before all that is measured: a gateway may learn from it
	name := fmt.Sprintf("bench-%d", i+1)
	if k.longQueue {
		name += "-long"
	}
	if k.fresh {
		name += "-untaught"
	}
	setup := Setup{
		Engines: a.engines.setup(), Accounts: r.accounts[i], Queue: r.preset.queue(k.longQueue),
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
func (r *suite) stop() error {
	var all []error
	stopped := map[*runner]bool{nil: true}
	for _, a := range slices.Concat(slices.Collect(maps.Values(r.runners))...) {
		if !stopped[a] {
			all = append(all, a.stop())
			stopped[a] = true
		}
	}
	return errors.Join(all...)
}

// capacity is how many requests of a shape the engines of a gateway answer per second. All that are ours are alike, so
// it is measured once.
func (r *suite) capacity(ctx context.Context, a *runner, sh requestShape) (float64, error) {
	if c, ok := r.capacities[sh]; ok {
		return c, nil
	}
	var c float64
	var err error
	if a.engines != nil {
		c, err = engineCapacity(ctx, a, sh, max(r.preset.capacityTime, 5*sh.timing.serviceTime(sh.tokens)))
	} else {
		c, err = searchCapacity(ctx, a, sh, a.allKeys(), r.preset.capacityTime)
	}
	if err == nil && c == 0 {
		err = errors.New("nothing was answered while capacity was measured")
	}
	r.capacities[sh] = c
	return c, err
}

func (a *runner) allKeys() []string { return slices.Compact(slices.Sorted(maps.Values(a.keys))) }

// progress says what is going on.
func (r *suite) progress(gateway, doing string) {
	if r.preset.quick {
		gateway = "" // all at once
	}
	r.set(Progress{Gateway: gateway, Doing: doing})
}

func (r *suite) set(p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Scenario == "" {
		p.Scenario = r.now.Scenario
	}
	r.now = p
	r.progressLocked()
}

func (r *suite) progressLocked() {
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
func (r *suite) tick() (stop func()) {
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
