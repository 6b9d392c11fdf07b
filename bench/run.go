package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options say what to run.
type Options struct {
	Scenarios []string  // names; empty: all
	Gateways  []Gateway // in the order of the tables; may be empty with Remote
	Remote    *Remote   // a gateway that already runs; nil: none
	Quick     bool      // a few seconds for each scenario
	Dir       string    // scratch directory, made and removed by the caller
	Program   string    // version of this program, for the report

	// Progress is called whenever something begins, by one goroutine at a time. It may be nil.
	Progress func(Progress)
}

// Remote is a gateway that already runs.
type Remote struct {
	URL     string   // base URL, ending in /v1
	Model   string   // to request
	Keys    []string // API keys, one for each account; scenarios that need more accounts are left out, with a note
	Engines []string // addresses at which simulated engines are started for it; empty: it has engines of its own
	Slots   int      // requests that all its engines run at once; 0: 4 for each of Engines
}

// Progress is the progress of a run.
type Progress struct {
	Scenario string        // that runs
	Gateway  string        // that is measured; empty: several
	Doing    string        // such as "2×" or "starting"
	Done     float64       // share of the whole run, 0 to 1
	Left     time.Duration // until the end of the run, estimated
}

// Run runs scenarios one after the other, each against every gateway. When ctx ends, it ends everything that it has started
// and returns ctx's error.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	scenarios, err := selectScenarios(o.Scenarios)
	if err != nil {
		return nil, err
	}
	u := newSuite(o, scenarios)
	defer func() { err = errors.Join(err, u.stop()) }()
	if err := u.start(ctx, scenarios); err != nil {
		return nil, err
	}
	report = &Report{Format: Format, Began: u.began.UTC(), Quick: o.Quick, Machine: thisMachine(o.Program)}
	for _, g := range u.gateways {
		report.Gateways = append(report.Gateways, gatewayInfo{Name: g.Name, About: g.About, Judged: g.Judged})
	}
	for i := range scenarios {
		s, err := u.runScenario(ctx, &scenarios[i])
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("cannot run the scenario %s: %w", scenarios[i].Name, err)
		}
		report.Scenarios = append(report.Scenarios, s)
	}
	report.Seconds = time.Since(u.began).Seconds()
	return report, nil
}

// selectScenarios returns the scenarios of these names, in the order of the report.
func selectScenarios(names []string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("unknown scenario %q; there are %s", n, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(c Scenario) bool { return !slices.Contains(names, c.Name) }), nil
}
