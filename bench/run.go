package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options are what a run is asked for.
type Options struct {
	Scenarios []string  // names; empty: all
	Gateways  []Gateway // in the order of the tables; empty where only Remote is judged
	Remote    *Remote   // a gateway that runs already; nil: none
	Quick     bool      // a few seconds for each scenario
	Dir       string    // scratch, made and removed by the caller
	Program   string    // the version of this program, for the report

	// Progress is told what is going on, at least once a second, by one goroutine at a time. Nil: nobody listens.
	Progress func(Progress)
}

// Remote is a gateway that somebody else runs.
type Remote struct {
	URL     string   // its base URL, ending in /v1
	Model   string   // what is asked for
	Keys    []string // API keys, one for each account; scenarios that need more accounts than keys are left out, and say so
	Engines []string // addresses where simulated engines are started for it; empty: it has engines of its own
	Slots   int      // how many requests its engines run at once; 0 with Engines: what these have
}

// Progress is how far a run is.
type Progress struct {
	Scenario string        // what runs
	Gateway  string        // and for whom; empty: for none in particular
	Doing    string        // "2×", "starting", …
	Done     float64       // share of the whole run, 0 to 1
	Left     time.Duration // until the whole run ends, as far as it is known
}

// Run runs scenarios, one after the other and each against every gateway, and returns what they found. When ctx ends, it
// ends everything that it has started and returns ctx's error.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	contests, err := selectScenarios(o.Scenarios)
	if err != nil {
		return nil, err
	}
	r := newSuite(o, contests)
	defer func() { err = errors.Join(err, r.stop()) }()
	if err := r.start(ctx, contests); err != nil {
		return nil, err
	}
	report = &Report{Format: Format, Began: r.began.UTC(), Quick: o.Quick, Machine: machine(o.Program)}
	for _, g := range r.gateways {
		report.Gateways = append(report.Gateways, About{Name: g.Name, Text: g.About, Judged: g.Judged})
	}
	for i := range contests {
		s, err := r.runScenario(ctx, &contests[i])
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("cannot run the scenario %s: %w", contests[i].Name, err)
		}
		report.Scenarios = append(report.Scenarios, s)
	}
	report.Seconds = time.Since(r.began).Seconds()
	return report, nil
}

// ErrUnknownScenario is for names that no scenario has.
var ErrUnknownScenario = errors.New("there is no such scenario")

// selectScenarios are the scenarios of these names, in the order of the report.
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
			return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknownScenario, n, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(c Scenario) bool { return !slices.Contains(names, c.Name) }), nil
}
