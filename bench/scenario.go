package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Scenario is a scenario before it has run.
type Scenario struct {
	Name  string // as -scenario takes it
	Title string // a line

	title           func(preset) string // the same with a number that depends on the size; nil: Title
	question        string
	method          func(preset) string
	accounts        []string // who asks in it
	minAccounts     int      // of these, how many do if there are not more; 0: all
	minEngines      int      // it needs so many that are ours
	needsPriorities bool     // it needs accounts of priorities and weights that are ours
	variant         variant  // of gateways that it needs
	shapes          func(preset) []requestShape
	duration        func(preset) time.Duration // about, for one gateway
	columns         []Column
	keyCases        []string // as in Scenario
	plots           []Plot   // without what is in them
	thresholds      []threshold
	run             func(context.Context, *scenarioRun) error
}

// Scenarios are all scenarios, in the order of the report.
func Scenarios() []Scenario {
	return []Scenario{loadScenario(), floodScenario(), costlyScenario(), slowReadersScenario(), classesScenario(), leavingScenario(), engineLostScenario(), retryScenario()}
}

// scenarioRun is where one gateway plays one scenario, and what was found there.
type scenarioRun struct {
	*runner
	scenario *Scenario
	preset   preset
	accounts []string                 // the accounts that take part
	rates    map[requestShape]float64 // capacity, in requests of a shape per second
	missing  string                   // why it cannot be played
	findings
}

// findings is what one scenario has found for one gateway.
type findings struct {
	gateway         *Gateway
	rows            []Row
	measured        map[string][]float64 // by the mark's name
	reasons         map[string]string    // by the mark's name: what was measured that explains why it cannot be reached
	series          map[string][]Series  // by the plot's name
	lines           map[string][]Line    // by the plot's name
	notes           []string
	capacityInDoubt bool // capacity is not known well enough to judge anything
}

// threshold is what a gateway is to reach.
type threshold struct {
	name, unit string
	min, max   float64 // one of them; the other is 0
	quick      float64 // the same in a quick run, which is too short for more
	zero       bool    // it is to be 0
}

func (m threshold) want(quick bool) (string, func(float64) bool) {
	bound := func(b float64) float64 {
		if quick && m.quick != 0 {
			return m.quick
		}
		return b
	}
	switch {
	case m.zero:
		return "none", func(v float64) bool { return v == 0 }
	case m.min != 0:
		b := bound(m.min)
		return "at least " + m.show(b), func(v float64) bool { return v >= b }
	}
	b := bound(m.max)
	return "at most " + m.show(b), func(v float64) bool { return v <= b }
}

func (m threshold) show(v float64) string {
	switch m.unit {
	case "":
		return fmt.Sprintf("%g", v)
	case "%":
		return fmt.Sprintf("%g %%", 100*v)
	}
	return fmt.Sprintf("%g %s", v, m.unit)
}

// worst is the value that is farthest from what is wanted. What was not measured is not looked at.
func (m threshold) worst(got []float64) Value {
	worst := Unmeasured()
	for _, v := range got {
		if Value(v).Measured() && (!worst.Measured() || (m.min != 0) == (v < float64(worst))) {
			worst = Value(v)
		}
	}
	return worst
}

// prepare prepares a scenario for one gateway.
func (r *suite) prepare(ctx context.Context, c *Scenario, a *runner) (*scenarioRun, error) {
	s := &scenarioRun{runner: a, scenario: c, preset: r.preset, accounts: c.accounts, rates: map[requestShape]float64{}}
	s.findings = findings{gateway: a.gateway, measured: map[string][]float64{}, reasons: map[string]string{},
		series: map[string][]Series{}, lines: map[string][]Line{}}
	if a.gateway.Start == nil {
		s.missing = s.assignKeys(r.options.Remote)
	}
	if s.missing != "" {
		return s, nil
	}
	for _, sh := range append([]requestShape{r.preset.shape()}, c.ownShapes(r.preset)...) {
		rate, err := r.capacity(ctx, a, sh)
		if err != nil {
			return nil, fmt.Errorf("cannot measure the capacity: %w", err)
		}
		s.rates[sh] = rate
	}
	return s, nil
}

func (c *Scenario) ownShapes(z preset) []requestShape {
	if c.shapes == nil {
		return nil
	}
	return c.shapes(z)
}

// assignKeys gives the keys of a gateway that is not ours to the accounts, or says what is missing.
func (s *scenarioRun) assignKeys(m *Remote) string {
	c := s.scenario
	few := c.minAccounts
	if few == 0 {
		few = len(c.accounts)
	}
	switch {
	case c.minEngines > len(m.Engines):
		return fmt.Sprintf("it needs at least %d simulated engines behind the gateway (flag -engines), and there are "+
			"%d", c.minEngines, len(m.Engines))
	case c.needsPriorities:
		return "it needs accounts of certain priorities and weights, which cannot be set up in a gateway that runs already"
	case len(m.Keys) < few:
		return fmt.Sprintf("it needs %d accounts, so as many keys (flag -key), and there are %d", few, len(m.Keys))
	}
	s.accounts = c.accounts[:min(len(c.accounts), len(m.Keys))]
	for i, name := range s.accounts {
		s.keys[name] = m.Keys[i]
	}
	return ""
}

func (s *scenarioRun) run(ctx context.Context) (findings, error) {
	if s.missing != "" {
		s.note("Left out for %s: %s.", s.runner.gateway.Name, s.missing)
		return s.findings, nil
	}
	err := s.scenario.run(ctx, s)
	return s.findings, err
}

func (f *findings) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// addRow adds a row of the table. The values stand in the order of the columns.
func (f *findings) addRow(name string, values ...float64) {
	row := Row{Gateway: f.gateway.Name, Case: name}
	for _, v := range values {
		row.Values = append(row.Values, Value(v))
	}
	f.rows = append(f.rows, row)
}

func (f *findings) observe(mark string, v float64) { f.measured[mark] = append(f.measured[mark], v) }

// observeGoodput is reach for goodput, of which v is judged.
func (f *findings) observeGoodput(v, goodput float64) {
	f.observe(markGoodput, v)
	f.checkCapacity(goodput)
}

// checkCapacity lets nothing be judged if all goodput came to more than can be.
func (f *findings) checkCapacity(goodput float64) {
	if goodput > maxGoodput && !f.capacityInDoubt {
		f.capacityInDoubt = true
		f.note("%s: capacity was measured too low, since goodput came to %.0f %% of it: no verdict.", f.gateway.Name, 100*goodput)
	}
}

// maxGoodput is what goodput may seem to be, of capacity, since neither is measured exactly.
const maxGoodput = 1.1

func (f *findings) addSeries(name string, s Series) {
	s.Gateway = f.gateway.Name
	f.series[name] = append(f.series[name], s)
}

// runTrial plays one trial, and notes what is common to all.
func (s *scenarioRun) runTrial(ctx context.Context, t *trial) (*result, error) {
	s.progress(s.runner.gateway.Name, t.name)
	for i := range t.flows {
		if t.flows[i].input == 0 {
			t.flows[i].input = s.preset.shape().input
		}
	}
	if t.cutoff == 0 && t.window.end < requestTimeout { // there is no time to see everybody off
		t.cutoff = t.window.end + s.preset.grace
	}
	r, err := s.runner.run(ctx, t)
	if err != nil {
		return nil, err
	}
	if r.generatorDelay > ms(s.preset.maxLateness) {
		s.note("%s, %s: the load generator itself was late, by %.0f ms at p99: do not rely on these "+
			"times.", s.runner.gateway.Name, t.name, r.generatorDelay)
	}
	if r.leaked > 0 {
		s.note("%s, %s: %d requests were still held when all had been quiet for "+
			"%s.", s.runner.gateway.Name, t.name, r.leaked, s.leakWait)
	}
	return r, nil
}

// result puts together what was found. Rows are ordered by case, so that gateways stand side by side.
func (c *Scenario) result(z preset, found []findings) ScenarioResult {
	title := c.Title
	if c.title != nil {
		title = c.title(z)
	}
	s := ScenarioResult{Name: c.Name, Title: title, Question: c.question, Method: c.method(z), Columns: c.columns, KeyCases: c.keyCases,
		Plots: slices.Clone(c.plots)}
	quick := z.quick
	var cases []string
	for _, f := range found {
		s.Notes = append(s.Notes, f.notes...)
		for _, r := range f.rows {
			if !slices.Contains(cases, r.Case) {
				cases = append(cases, r.Case)
			}
		}
		for i := range s.Plots {
			s.Plots[i].Series = append(s.Plots[i].Series, f.series[s.Plots[i].Name]...)
			if s.Plots[i].Lines == nil {
				s.Plots[i].Lines = f.lines[s.Plots[i].Name]
			}
		}
		s.Thresholds = append(s.Thresholds, c.judge(f, quick)...)
	}
	for _, name := range cases {
		for _, f := range found {
			for _, r := range f.rows {
				if r.Case == name {
					s.Rows = append(s.Rows, r)
				}
			}
		}
	}
	return s
}

// judge compares what was found with the marks, if they are for this gateway. What was not measured is a mark, too, that says
// so: nothing is skipped in silence.
func (c *Scenario) judge(f findings, quick bool) []ThresholdResult {
	if !f.gateway.Judged {
		return nil
	}
	var marks []ThresholdResult
	for _, m := range c.thresholds {
		got := m.worst(f.measured[m.name])
		if f.capacityInDoubt {
			got = Unmeasured()
		}
		want, passed := m.want(quick)
		mark := ThresholdResult{Name: m.name, Gateway: f.gateway.Name, Want: want, Got: got, Unit: m.unit}
		if mark.Passed = got.Measured() && passed(float64(got)); !mark.Passed && got.Measured() {
			mark.Why = f.reasons[m.name]
		}
		marks = append(marks, mark)
	}
	return marks
}
