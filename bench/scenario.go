package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Scenario is one kind of load, and what is measured under it.
type Scenario struct {
	Name  string // as -scenario takes it
	Title string // one line

	question        string
	method          func(preset) string // the load, in Markdown
	accounts        []string            // that send requests; those first that are needed most
	minAccounts     int                 // how many of them are enough; 0: all
	minEngines      int                 // simulated engines that it needs
	needsPriorities bool                // it needs accounts of certain priorities and weights
	variant         variant             // of the gateways that it needs
	shapes          func(preset) []requestShape
	duration        func(preset) time.Duration // about, for one gateway
	columns         []column
	keyCases        []string // see ScenarioResult
	charts          []chart  // without series
	thresholds      []threshold
	run             func(context.Context, *scenarioRun) error
}

// Scenarios returns all scenarios, in the order of the report.
func Scenarios() []Scenario {
	return []Scenario{loadScenario(), floodScenario(), costlyScenario(), slowReadersScenario(), classesScenario(),
		leavingScenario(), engineLostScenario(), retryScenario()}
}

// scenarioRun is one scenario at one gateway, and what it has found there.
type scenarioRun struct {
	*runner
	scenario *Scenario
	preset   preset
	accounts []string                 // that take part
	rates    map[requestShape]float64 // capacity, in requests of a shape per second
	missing  string                   // why the scenario cannot run here
	findings
}

// prepare measures the capacity that a scenario needs to know at one gateway.
func (u *suite) prepare(ctx context.Context, c *Scenario, r *runner) (*scenarioRun, error) {
	s := &scenarioRun{runner: r, scenario: c, preset: u.preset, accounts: c.accounts, rates: map[requestShape]float64{},
		findings: findings{scenario: c, by: r.gateway, observed: map[string][]float64{}, reasons: map[string][]string{},
			series: map[string][]series{}, refLines: map[string][]refLine{}}}
	if r.gateway.Start == nil {
		s.missing = s.assignKeys(u.options.Remote)
	}
	if s.missing != "" {
		return s, nil
	}
	shapes := []requestShape{u.preset.shape()}
	if c.shapes != nil {
		shapes = append(shapes, c.shapes(u.preset)...)
	}
	for _, shape := range shapes {
		rate, err := u.capacity(ctx, r, shape)
		if err != nil {
			return nil, fmt.Errorf("cannot measure the capacity: %w", err)
		}
		s.rates[shape] = rate
	}
	return s, nil
}

// assignKeys gives the keys of a gateway that already runs to the accounts, or returns what is missing.
func (s *scenarioRun) assignKeys(m *Remote) string {
	c := s.scenario
	needed := c.minAccounts
	if needed == 0 {
		needed = len(c.accounts)
	}
	switch {
	case c.minEngines > len(m.Engines):
		return fmt.Sprintf("it needs at least %d simulated engines behind the gateway (flag -engines), and there are %d",
			c.minEngines, len(m.Engines))
	case c.needsPriorities:
		return "it needs accounts of certain priorities and weights, which cannot be set up in a gateway that already runs"
	case len(m.Keys) < needed:
		return fmt.Sprintf("it needs %d accounts, so as many keys (flag -key), and there are %d", needed, len(m.Keys))
	}
	s.accounts = c.accounts[:min(len(c.accounts), len(m.Keys))]
	for i, name := range s.accounts {
		s.keys[name] = m.Keys[i]
	}
	return ""
}

func (s *scenarioRun) run(ctx context.Context) (findings, error) {
	if s.missing != "" {
		s.note("left out: %s", s.missing)
		return s.findings, nil
	}
	err := s.scenario.run(ctx, s)
	return s.findings, err
}

// runTrial runs one trial, and notes what may be noted of any.
func (s *scenarioRun) runTrial(ctx context.Context, t *trial) (*result, error) {
	s.progress(s.gateway.Name, t.name)
	for i := range t.flows {
		if t.flows[i].input == 0 {
			t.flows[i].input = s.preset.shape().input
		}
	}
	if t.cutoff == 0 && t.window.end < requestTimeout { // a short run does not wait for every answer
		t.cutoff = t.window.end + s.preset.grace
	}
	r, err := s.runner.run(ctx, t)
	if err != nil {
		return nil, err
	}
	if r.generatorDelay > ms(s.preset.maxLateness) {
		s.note("%s: the load generator was late by %.0f ms at p99, so these times are not reliable", t.name, r.generatorDelay)
	}
	if r.leaked > 0 {
		s.note("%s: %d requests were still held %s after the last one had ended", t.name, r.leaked, s.leakWait)
	}
	failures, example := 0, ""
	for x := range r.eachSample {
		if x.outcome == failed {
			failures++
			example = x.describe()
		}
	}
	if failures > 0 && len(t.events) == 0 {
		s.note("%s: %d requests failed, one with: %s", t.name, failures, example)
	}
	return r, nil
}

// work is the work of one request of a shape: in seconds of a slot, or in events where the engines are not ours.
func (s *scenarioRun) work(shape requestShape) float64 {
	if s.engines == nil {
		return s.events.expected(shape.tokens)
	}
	return shape.timing.serviceTime(shape.tokens).Seconds()
}

// findings is what one scenario has found at one gateway.
type findings struct {
	scenario        *Scenario
	by              *Gateway
	rows            []Row
	observed        map[string][]float64 // by the threshold's name
	reasons         map[string][]string  // by the threshold's name: see ThresholdResult.Why
	series          map[string][]series  // by the chart's name
	refLines        map[string][]refLine // by the chart's name
	notes           []string
	capacityInDoubt bool // nothing can be judged
}

func (f *findings) note(format string, args ...any) {
	f.notes = append(f.notes, f.by.Name+", "+fmt.Sprintf(format, args...)+".")
}

// figures are values by the name of their column. Absent ones were not measured.
type figures map[string]float64

// addRow adds a row of the table.
func (f *findings) addRow(name string, values figures) {
	row := Row{Gateway: f.by.Name, Case: name}
	for _, c := range f.scenario.columns {
		v, ok := values[c.Name]
		if !ok {
			v = math.NaN()
		}
		row.Values = append(row.Values, Value(v))
		delete(values, c.Name)
	}
	for column := range values {
		panic("bench: the scenario " + f.scenario.Name + " has no column " + column)
	}
	f.rows = append(f.rows, row)
}

// observe notes a value that a threshold applies to.
func (f *findings) observe(t threshold, v float64) {
	f.observed[t.name] = append(f.observed[t.name], v)
}

// maxGoodput bounds goodput relative to capacity: neither is measured exactly.
const maxGoodput = 1.1

// checkCapacity discards all verdicts if goodput exceeds the capacity.
func (f *findings) checkCapacity(goodput float64) {
	if goodput > maxGoodput && !f.capacityInDoubt {
		f.capacityInDoubt = true
		f.note("no verdict: the capacity was measured too low, since goodput reached %.0f %% of it", 100*goodput)
	}
}

func (f *findings) addSeries(chart string, s series) {
	s.Gateway = f.by.Name
	f.series[chart] = append(f.series[chart], s)
}

// result puts the findings of all gateways together. The rows of a case stand side by side.
func (c *Scenario) result(p preset, found []findings) ScenarioResult {
	s := ScenarioResult{Name: c.Name, Title: c.Title, Question: c.question, Method: c.method(p), Columns: c.columns,
		KeyCases: c.keyCases, Charts: slices.Clone(c.charts)}
	var rows []Row
	for _, f := range found {
		s.Notes = append(s.Notes, f.notes...)
		rows = append(rows, f.rows...)
		for i := range s.Charts {
			s.Charts[i].Series = append(s.Charts[i].Series, f.series[s.Charts[i].Name]...)
			if s.Charts[i].RefLines == nil {
				s.Charts[i].RefLines = f.refLines[s.Charts[i].Name]
			}
		}
		s.Thresholds = append(s.Thresholds, c.judge(f, p.quick)...)
	}
	unordered := ScenarioResult{Rows: rows}
	for _, of := range unordered.cases() {
		for _, j := range of {
			s.Rows = append(s.Rows, rows[j])
		}
	}
	return s
}

// judge compares the findings at a judged gateway with the thresholds. A threshold that was not measured is listed too.
func (c *Scenario) judge(f findings, quick bool) []ThresholdResult {
	if !f.by.Judged {
		return nil
	}
	var results []ThresholdResult
	for _, t := range c.thresholds {
		got := t.worst(f.observed[t.name])
		if f.capacityInDoubt {
			got = Unmeasured()
		}
		r := ThresholdResult{Name: t.name, Gateway: f.by.Name, Want: t.want(quick), Got: got, Unit: t.unit,
			Passed: got.Measured() && t.met(float64(got), quick)}
		if !r.Passed && got.Measured() {
			r.Why = f.reasons[t.name]
		}
		results = append(results, r)
	}
	return results
}
