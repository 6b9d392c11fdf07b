package bench

import (
	"context"
	"math"
	"runtime/debug"
	"time"

	"colonnade/bench/cost"
)

// Performance measures what requests cost, and returns the report. program is the version of this program.
func Performance(ctx context.Context, o cost.Options, quick bool, program string) (*Report, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // clients share the machine with what they measure
	began := time.Now()
	measured, err := cost.Run(ctx, o)
	if err != nil {
		return nil, err
	}
	r := performanceReport(measured, &o.Size)
	r.Began, r.Seconds, r.Quick, r.Machine = began.UTC(), time.Since(began).Seconds(), quick, thisMachine(program)
	return r, nil
}

// performanceReport makes a report of what was measured. Scenarios that did not run are left out.
func performanceReport(m *cost.Result, size *cost.Size) *Report {
	r := &Report{Format: Format, Page: performancePage}
	for _, c := range m.Contestants {
		r.Gateways = append(r.Gateways, gatewayInfo{Name: c.Name, About: c.About, Judged: c.Name == cost.FleetName})
	}
	for _, add := range []func(*cost.Result, *cost.Size) (ScenarioResult, bool){
		plainResult, spacedResult, chunkResult, messageResult, tracesResult, openResult, waitingResult, manyResult, startResult, shipResult, functionResult,
	} {
		if s, measured := add(m, size); measured {
			r.Scenarios = append(r.Scenarios, s)
		}
	}
	if len(r.Scenarios) > 0 {
		r.Scenarios[0].Notes = append(r.Scenarios[0].Notes, leftOut(m)...)
	}
	return r
}

func leftOut(m *cost.Result) (notes []string) {
	for _, why := range m.LeftOut {
		notes = append(notes, "Left out: "+why+".")
	}
	return notes
}

// aim compares a figure with the most that it may be. Want is in the words of the page.
func aim(name, gateway, want string, got, limit float64, unit string) ThresholdResult {
	return ThresholdResult{Name: name, Gateway: gateway, Want: want, Got: Value(got), Unit: unit, Passed: got <= limit}
}

// turnsTable fills a scenario with the figures of contestants in turns, each beside one of them.
type turnsTable struct {
	*ScenarioResult
	all    []cost.Figures
	beside string // the contestant that the others are compared with
	chart  chart  // of the processor time; its series are added
}

// columns of scenarios with turns; those without a value in any row are not shown.
func turnColumns(unit, beside string) []column {
	return []column{
		{Name: "CPU", Unit: "µs", Better: lower, Key: true, Help: "processor time of the contestant's processes for " + unit + ", median of the rounds."},
		{Name: "least", Unit: "µs", Better: lower, Help: "the least of all rounds, which other processes disturb least."},
		{Name: "most", Unit: "µs", Help: "the most of all rounds."},
		{Name: "× " + beside, Unit: "×", Better: lower, Help: "processor time relative to " + beside + " in the same round, median of the rounds."},
		{Name: "× of least", Unit: "×", Better: lower, Help: "the least of all rounds, relative to the least of " + beside + "."},
		{Name: "p50", Unit: "ms", Better: lower, Help: "latency from when the request was due, median; of the rounds, the median."},
		{Name: "p99", Unit: "ms", Better: lower, Help: "the same, 99th percentile."},
		{Name: "least p99", Unit: "ms", Better: lower, Help: "the least 99th percentile of a round."},
		{Name: "late", Unit: "ms", Help: "by how much the client was late to send a request, 99th percentile; part of the latency."},
		{Name: "per second", Help: "how many were done in a second, median of the rounds."},
		{Name: "failed", Better: lower, Help: "how many failed."},
	}
}

// add adds the rows, the chart of the processor time, and that of its rounds.
func (t *turnsTable) add() {
	reference, _ := cost.Of(t.all, t.beside)
	rounds := chart{Name: "rounds", Title: t.chart.Title + ", by round", Kind: lineChart, X: axis{Label: "round"}, Y: axis{Label: "processor time", Unit: "µs", Log: true}}
	for _, f := range t.all {
		failed, first := f.Failed()
		t.Rows = append(t.Rows, Row{Gateway: f.Contestant, Values: values(f.Median(cost.CPU), f.Least(cost.CPU), f.Most(cost.CPU),
			f.Ratio(reference, cost.CPU), f.Least(cost.CPU)/reference.Least(cost.CPU),
			f.Median(cost.P50)/1e3, f.Median(cost.P99)/1e3, f.Least(cost.P99)/1e3, f.Median(cost.Late)/1e3,
			math.Round(f.Median(cost.Rate)), float64(failed))})
		if failed > 0 {
			t.Notes = append(t.Notes, f.Contestant+": the first that failed: "+first)
		}
		t.chart.Series = append(t.chart.Series, series{Gateway: f.Contestant, Y: values(f.Median(cost.CPU), f.Least(cost.CPU))})
		rounds.Series = append(rounds.Series, roundSeries(f))
	}
	t.chart.Kind, t.chart.X, t.chart.Y = barChart, axis{Label: "of the rounds", Names: []string{"median", "least"}}, axis{Label: "processor time", Unit: "µs"}
	t.Charts = append(t.Charts, t.chart, rounds)
}

func roundSeries(f cost.Figures) series {
	s := series{Gateway: f.Contestant}
	for i, r := range f.Rounds {
		s.X, s.Y = append(s.X, Value(i+1)), append(s.Y, Value(r.CPU))
	}
	return s
}

func values(of ...float64) (all []Value) {
	for _, v := range of {
		all = append(all, Value(v))
	}
	return all
}

// ratios are those of a contestant to another: the median over the rounds.
func ratioOf(all []cost.Figures, name, beside string, figure func(cost.Round) float64) float64 {
	f, _ := cost.Of(all, name)
	to, _ := cost.Of(all, beside)
	return f.Ratio(to, figure)
}
