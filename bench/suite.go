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

// suite is a run in progress: the gateways, and their runners for each variant.
type suite struct {
	options  Options
	preset   preset
	gateways []*Gateway
	accounts [][]Account // by gateway: they differ by their keys
	began    time.Time
	planned  time.Duration // of the whole run
	ids      idSource

	runners    map[variant][]*runner // by gateway
	capacities map[requestShape]float64

	mu       sync.Mutex // guards the field below, and calls of Progress
	scenario string     // that runs
}

// variant is how the gateways of a scenario are set up.
type variant struct {
	longQueue bool // far longer than any queue should be
	fresh     bool // no other scenario has taught the gateway how long answers take
}

func newSuite(o Options, scenarios []Scenario) *suite {
	u := &suite{options: o, preset: fullRun, began: time.Now(), runners: map[variant][]*runner{}, capacities: map[requestShape]float64{}}
	if o.Quick {
		u.preset = quickRun
	}
	for i := range o.Gateways {
		u.gateways = append(u.gateways, &o.Gateways[i])
	}
	if o.Remote != nil {
		u.gateways = append(u.gateways, o.Remote.gateway())
	}
	for range u.gateways {
		u.accounts = append(u.accounts, newAccounts())
	}
	u.planned = 3 * time.Second // to start everything, and to measure the capacity
	if o.Remote != nil && len(o.Remote.Engines) == 0 {
		u.planned += searchSteps * u.preset.capacityTime
	}
	for i := range scenarios {
		d := scenarios[i].duration(u.preset)
		if !u.preset.quick {
			d *= time.Duration(len(u.gateways))
		}
		u.planned += d
	}
	return u
}

// runScenario runs a scenario at every gateway: in turn, so that they do not disturb each other, or side by side in a quick
// run.
func (u *suite) runScenario(ctx context.Context, c *Scenario) (ScenarioResult, error) {
	u.set(Progress{Scenario: c.Name, Doing: "measuring capacity"})
	runners := u.runners[c.variant]
	runs := make([]*scenarioRun, len(runners))
	for i, r := range runners {
		var err error
		if runs[i], err = u.prepare(ctx, c, r); err != nil {
			return ScenarioResult{}, err
		}
	}
	found, errs := make([]findings, len(runners)), make([]error, len(runners))
	var all sync.WaitGroup
	for i, s := range runs {
		run := func() { found[i], errs[i] = s.run(ctx) }
		if u.preset.quick {
			all.Go(run)
			continue
		}
		if run(); errs[i] != nil {
			break
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return ScenarioResult{}, err
	}
	return c.result(u.preset, found), nil
}

// start starts all gateways, in the variants that the scenarios need. A gateway that already runs has one runner.
func (u *suite) start(ctx context.Context, scenarios []Scenario) error {
	u.set(Progress{Doing: "starting"})
	var all sync.WaitGroup
	var failures [][]error
	first := scenarios[0].variant
	for i := range scenarios {
		v := scenarios[i].variant
		if u.runners[v] != nil {
			continue
		}
		runners, failed := make([]*runner, len(u.gateways)), make([]error, len(u.gateways))
		u.runners[v] = runners
		for i := range u.gateways {
			if !u.isRemote(i) || v == first {
				all.Go(func() { runners[i], failed[i] = u.startRunner(ctx, i, v) })
			}
		}
		failures = append(failures, failed)
	}
	all.Wait()
	for _, runners := range u.runners {
		for i := range runners {
			if u.isRemote(i) {
				runners[i] = u.runners[first][i]
			}
		}
	}
	return errors.Join(slices.Concat(failures...)...)
}

// isRemote reports whether a gateway already runs.
func (u *suite) isRemote(i int) bool { return u.gateways[i].Start == nil }

// startRunner returns the runner of a gateway once the gateway serves.
func (u *suite) startRunner(ctx context.Context, i int, v variant) (*runner, error) {
	r := &runner{gateway: u.gateways[i], ids: &u.ids, progress: u.progress, leakWait: u.preset.leakWait, keys: map[string]string{}}
	var err error
	if u.isRemote(i) {
		err = r.connect(u.options.Remote)
	} else {
		err = u.startGateway(ctx, r, i, v)
	}
	if err == nil {
		err = r.awaitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

// startGateway starts the engines of a runner, and its gateway.
func (u *suite) startGateway(ctx context.Context, r *runner, i int, v variant) (err error) {
	addresses := slices.Repeat([]string{"127.0.0.1:0"}, u.preset.engines)
	if r.engines, err = startEngines(addresses, u.preset.slots); err != nil {
		return err
	}
	r.engines.setTiming(u.preset.timing) // a gateway may learn from the requests before the first measurement
	name := fmt.Sprintf("bench-%d", i+1)
	if v.longQueue {
		name += "-long"
	}
	if v.fresh {
		name += "-fresh"
	}
	setup := Setup{Engines: r.engines.setup(), Accounts: u.accounts[i], Queue: u.preset.queue(v.longQueue),
		Model: name, Dir: filepath.Join(u.options.Dir, name)}
	if err := os.MkdirAll(setup.Dir, 0o700); err != nil {
		return fmt.Errorf("cannot make a directory for the gateway %s: %w", r.gateway.Name, err)
	}
	for _, account := range setup.Accounts {
		r.keys[account.Name] = account.Key
	}
	if r.target, err = r.gateway.Start(ctx, setup); err != nil {
		return fmt.Errorf("cannot start the gateway %s: %w", r.gateway.Name, err)
	}
	r.client, err = newClient(r.target.URL, setup.Model)
	return err
}

// stop ends everything that runs.
func (u *suite) stop() error {
	var all []error
	stopped := map[*runner]bool{nil: true}
	for _, r := range slices.Concat(slices.Collect(maps.Values(u.runners))...) {
		if !stopped[r] {
			all = append(all, r.stop())
			stopped[r] = true
		}
	}
	return errors.Join(all...)
}

// capacity is how many requests of a shape the engines of a gateway answer per second. All simulated engines are alike, so it
// is measured once.
func (u *suite) capacity(ctx context.Context, r *runner, shape requestShape) (float64, error) {
	if c, ok := u.capacities[shape]; ok {
		return c, nil
	}
	var c float64
	var err error
	if r.engines != nil {
		c, err = engineCapacity(ctx, r, shape, max(u.preset.capacityTime, 5*shape.timing.serviceTime(shape.tokens)))
	} else {
		keys := slices.Compact(slices.Sorted(maps.Values(r.keys)))
		c, err = searchCapacity(ctx, r, closedLoad{shape: shape, keys: keys, lasts: u.preset.capacityTime})
	}
	if err == nil && c == 0 {
		err = errors.New("nothing was answered while the capacity was measured")
	}
	u.capacities[shape] = c
	return c, err
}

func (u *suite) progress(gateway, doing string) {
	if u.preset.quick {
		gateway = "" // all at once
	}
	u.set(Progress{Gateway: gateway, Doing: doing})
}

// set reports what begins.
func (u *suite) set(p Progress) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.Scenario == "" {
		p.Scenario = u.scenario
	}
	u.scenario = p.Scenario
	if u.options.Progress != nil {
		spent := time.Since(u.began)
		p.Left = max(0, u.planned-spent)
		p.Done = min(1, spent.Seconds()/max(spent, u.planned).Seconds())
		u.options.Progress(p)
	}
}
