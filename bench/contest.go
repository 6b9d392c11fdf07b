package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Contest is a scenario before it has run.
type Contest struct {
	Name  string // as -scenario takes it
	Title string // a line

	title    func(size) string // the same with a number that depends on the size; nil: Title
	question string
	method   func(size) string
	accounts []string // who asks in it
	few      int      // of these, how many do if there are not more; 0: all
	engines  int      // it needs so many that are ours
	priority bool     // it needs accounts of priorities and weights that are ours
	kind     kind     // of gateways that it needs
	shapes   func(size) []shape
	lasts    func(size) time.Duration // about, for one gateway
	columns  []Column
	keyCases []string // as in Scenario
	plots    []Plot   // without what is in them
	marks    []mark
	play     func(context.Context, *stage) error
}

// Contests are all scenarios, in the order of the report.
func Contests() []Contest {
	return []Contest{load(), flood(), costly(), slowReaders(), classes(), clientsLeave(), engineLost(), comeBack()}
}

// stage is where one gateway plays one scenario, and what was found there.
type stage struct {
	*arena
	contest *Contest
	size    size
	seats   []string          // the accounts that take part
	rates   map[shape]float64 // capacity, in requests of a shape per second
	missing string            // why it cannot be played
	finding
}

// finding is what one scenario has found for one gateway.
type finding struct {
	by     *Gateway
	rows   []Row
	got    map[string][]float64 // by the mark's name
	why    map[string]string    // by the mark's name: what was measured that explains why it cannot be reached
	series map[string][]Series  // by the plot's name
	lines  map[string][]Line    // by the plot's name
	notes  []string
	unsure bool // capacity is not known well enough to judge anything
}

// mark is what a gateway is to reach.
type mark struct {
	name, unit  string
	least, most float64 // one of them; the other is 0
	rough       float64 // the same in a quick run, which is too short for more
	none        bool    // it is to be 0
}

func (m mark) want(quick bool) (string, func(float64) bool) {
	bound := func(b float64) float64 {
		if quick && m.rough != 0 {
			return m.rough
		}
		return b
	}
	switch {
	case m.none:
		return "none", func(v float64) bool { return v == 0 }
	case m.least != 0:
		b := bound(m.least)
		return "at least " + m.show(b), func(v float64) bool { return v >= b }
	}
	b := bound(m.most)
	return "at most " + m.show(b), func(v float64) bool { return v <= b }
}

func (m mark) show(v float64) string {
	switch m.unit {
	case "":
		return fmt.Sprintf("%g", v)
	case "%":
		return fmt.Sprintf("%g %%", 100*v)
	}
	return fmt.Sprintf("%g %s", v, m.unit)
}

// worst is the value that is farthest from what is wanted. What was not measured is not looked at.
func (m mark) worst(got []float64) Value {
	worst := Unmeasured()
	for _, v := range got {
		if Value(v).Measured() && (!worst.Measured() || (m.least != 0) == (v < float64(worst))) {
			worst = Value(v)
		}
	}
	return worst
}

// stage prepares a scenario for one gateway.
func (r *running) stage(ctx context.Context, c *Contest, a *arena) (*stage, error) {
	s := &stage{arena: a, contest: c, size: r.size, seats: c.accounts, rates: map[shape]float64{}}
	s.finding = finding{by: a.gateway, got: map[string][]float64{}, why: map[string]string{},
		series: map[string][]Series{}, lines: map[string][]Line{}}
	if a.gateway.Start == nil {
		s.missing = s.seat(r.options.Remote)
	}
	if s.missing != "" {
		return s, nil
	}
	for _, sh := range append([]shape{r.size.shape()}, c.ownShapes(r.size)...) {
		rate, err := r.capacity(ctx, a, sh)
		if err != nil {
			return nil, fmt.Errorf("cannot measure the capacity: %w", err)
		}
		s.rates[sh] = rate
	}
	return s, nil
}

func (c *Contest) ownShapes(z size) []shape {
	if c.shapes == nil {
		return nil
	}
	return c.shapes(z)
}

// seat gives the keys of a gateway that is not ours to the accounts, or says what is missing.
func (s *stage) seat(m *Remote) string {
	c := s.contest
	few := c.few
	if few == 0 {
		few = len(c.accounts)
	}
	switch {
	case c.engines > len(m.Engines):
		return fmt.Sprintf("it needs at least %d simulated engines behind the gateway (flag -engines), and there are "+
			"%d", c.engines, len(m.Engines))
	case c.priority:
		return "it needs accounts of certain priorities and weights, which cannot be set up in a gateway that runs already"
	case len(m.Keys) < few:
		return fmt.Sprintf("it needs %d accounts, so as many keys (flag -key), and there are %d", few, len(m.Keys))
	}
	s.seats = c.accounts[:min(len(c.accounts), len(m.Keys))]
	for i, name := range s.seats {
		s.keys[name] = m.Keys[i]
	}
	return ""
}

func (s *stage) perform(ctx context.Context) (finding, error) {
	if s.missing != "" {
		s.note("Left out for %s: %s.", s.gateway.Name, s.missing)
		return s.finding, nil
	}
	err := s.contest.play(ctx, s)
	return s.finding, err
}

func (f *finding) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// row adds a row of the table. The values stand in the order of the columns.
func (f *finding) row(name string, values ...float64) {
	row := Row{Gateway: f.by.Name, Case: name}
	for _, v := range values {
		row.Values = append(row.Values, Value(v))
	}
	f.rows = append(f.rows, row)
}

func (f *finding) reach(mark string, v float64) { f.got[mark] = append(f.got[mark], v) }

// reachGoodput is reach for goodput, of which v is judged.
func (f *finding) reachGoodput(v, goodput float64) {
	f.reach(markGoodput, v)
	f.doubt(goodput)
}

// doubt lets nothing be judged if all goodput came to more than can be.
func (f *finding) doubt(goodput float64) {
	if goodput > mostGoodput && !f.unsure {
		f.unsure = true
		f.note("%s: capacity was measured too low, since goodput came to %.0f %% of it: no verdict.", f.by.Name, 100*goodput)
	}
}

// mostGoodput is what goodput may seem to be, of capacity, since neither is measured exactly.
const mostGoodput = 1.1

func (f *finding) plot(name string, s Series) {
	s.Gateway = f.by.Name
	f.series[name] = append(f.series[name], s)
}

// trial plays one trial, and notes what is common to all.
func (s *stage) trial(ctx context.Context, t *trial) (*result, error) {
	s.tell(s.gateway.Name, t.name)
	for i := range t.flows {
		if t.flows[i].input == 0 {
			t.flows[i].input = s.size.shape().input
		}
	}
	if t.cut == 0 && t.window.until < patient { // there is no time to see everybody off
		t.cut = t.window.until + s.size.grace
	}
	r, err := s.arena.play(ctx, t)
	if err != nil {
		return nil, err
	}
	if r.late > ms(s.size.late) {
		s.note("%s, %s: the load generator itself was late, by %.0f ms at p99: do not rely on these "+
			"times.", s.gateway.Name, t.name, r.late)
	}
	if r.leaked > 0 {
		s.note("%s, %s: %d requests were still held when all had been quiet for "+
			"%s.", s.gateway.Name, t.name, r.leaked, s.patience)
	}
	return r, nil
}

// scenario puts together what was found. Rows are ordered by case, so that gateways stand side by side.
func (c *Contest) scenario(z size, found []finding) Scenario {
	title := c.Title
	if c.title != nil {
		title = c.title(z)
	}
	s := Scenario{Name: c.Name, Title: title, Question: c.question, Method: c.method(z), Columns: c.columns, KeyCases: c.keyCases,
		Plots: slices.Clone(c.plots)}
	quick := z.rough
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
		s.Marks = append(s.Marks, c.judge(f, quick)...)
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
func (c *Contest) judge(f finding, quick bool) []Mark {
	if !f.by.Judged {
		return nil
	}
	var marks []Mark
	for _, m := range c.marks {
		got := m.worst(f.got[m.name])
		if f.unsure {
			got = Unmeasured()
		}
		want, passed := m.want(quick)
		mark := Mark{Name: m.name, Gateway: f.by.Name, Want: want, Got: got, Unit: m.unit}
		if mark.Passed = got.Measured() && passed(float64(got)); !mark.Passed && got.Measured() {
			mark.Why = f.why[m.name]
		}
		marks = append(marks, mark)
	}
	return marks
}
