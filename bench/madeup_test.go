package bench

import (
	"math"
	"math/rand/v2"
	"time"
)

// madeUp is a report of figures that are made up.
func madeUp() *Report {
	r := &Report{
		Format: Format, Began: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC), Seconds: 1274,
		Machine: Machine{Cores: 2, CPU: "AMD EPYC 7R13", OS: "Linux 6.18 amd64", Go: "go1.26.8", Program: "v0.4.0", Commit: "5c1f00d"},
		Gateways: []About{
			{Name: "colonnade", Text: "Colonnade as it is by default: `fair` by tokens.", Judged: true},
			{Name: "no queue", Text: "Refuses whatever finds no free slot."},
			{Name: "fifo", Text: "One queue, first come, first served."},
			{Name: "round robin", Text: "One queue for each account, served in turn by count."},
			{Name: "haproxy", Text: "HAProxy 2.6.12."},
		},
	}
	r.Scenarios = []ScenarioResult{madeUpLoad(r.Gateways), madeUpFlood(r.Gateways)}
	return r
}

func madeUpLoad(gateways []About) ScenarioResult {
	s := ScenarioResult{
		Name: "load", Title: "Load from half to five times capacity", Question: "Does the engines' work get done, however much is asked for?",
		Method: "8 accounts send requests of 32 tokens, open loop, at 0.5, 1, 2, 3 and 5 times what 8 slots can do.\n\nEach case takes 30 s.",
		Columns: []Column{
			{Name: "goodput", Unit: "%", Help: "tokens of answers that came whole, of what the engines could have made", Better: Higher, Key: true},
			{Name: "p99 wait", Unit: "ms", Help: "from sending to the first token, less the engine's own time", Better: Lower},
			{Name: "refused", Unit: "%", Help: "of all requests"},
			{Name: "p99 refusal", Unit: "ms", Help: "how long a refusal on arrival takes", Better: Lower},
			{Name: "leaked", Help: "permits held after the end", Better: Lower},
		},
		Notes: []string{"HAProxy cannot tell a leaked permit."},
	}
	cases := []struct {
		name string
		load Value
	}{{"0.5×", 0.5}, {"1×", 1}, {"2×", 2}, {"3×", 3}, {"5×", 5}}
	good := map[string][]Value{
		"colonnade": {0.5, 0.981, 0.997, 0.998, 0.996}, "no queue": {0.5, 0.83, 0.912, 0.93, 0.951}, "fifo": {0.5, 0.979, 0.995, 0.994, 0.991},
		"round robin": {0.5, 0.98, 0.992, 0.991, 0.99}, "haproxy": {0.5, 0.975, 0.99, 0.987, 0.96},
	}
	wait := map[string][]Value{
		"colonnade": {0.4, 212, 3120, 3180, 3200}, "no queue": {0.3, 0.5, 0.6, 0.7, 0.8}, "fifo": {0.6, 420, 12100, 14000, 14900},
		"round robin": {0.6, 320, 9000, 9200, 9900}, "haproxy": {0.8, 380, 11000, 14000, 21500},
	}
	for i, c := range cases {
		for _, g := range gateways {
			leaked := Value(0)
			if g.Name == "haproxy" {
				leaked = Unmeasured()
			}
			refusal := Value(1.2 + 0.7*float64(c.load))
			s.Rows = append(s.Rows, Row{Gateway: g.Name, Case: c.name, Values: []Value{good[g.Name][i], wait[g.Name][i], max(0, 1-1/c.load), refusal, leaked}})
		}
	}
	s.Thresholds = []ThresholdResult{
		{Name: "goodput from 1× to 5×", Gateway: "colonnade", Want: "at least 95 %", Got: 0.981, Unit: "%", Passed: true},
		{Name: "p99 of refusals on arrival", Gateway: "colonnade", Want: "at most 10 ms", Got: 12.34, Unit: "ms",
			Why: "a refusal takes 12 ms, and a clock says so."},
		{Name: "leaked", Gateway: "colonnade", Want: "0", Got: 0, Passed: true},
		{Name: "dispatched late", Gateway: "colonnade", Want: "none", Got: Unmeasured()},
	}
	goodput := Plot{Name: "load-goodput", Title: "Goodput under load", Kind: Lines, X: Axis{Label: "Load", Unit: "× capacity"}, Y: Axis{Label: "Goodput", Unit: "%"},
		Lines: []Line{{Name: "mark: 95 %", At: 0.95}}}
	waits := Plot{Name: "load-wait", Title: "The longest waits under load", Kind: Lines, X: Axis{Label: "Load", Unit: "× capacity"}, Y: Axis{Label: "p99 wait", Unit: "ms", Log: true}}
	for _, g := range gateways {
		var x []Value
		for _, c := range cases {
			x = append(x, c.load)
		}
		goodput.Series = append(goodput.Series, Series{Gateway: g.Name, X: x, Y: good[g.Name]})
		waits.Series = append(waits.Series, Series{Gateway: g.Name, X: x, Y: wait[g.Name]})
	}
	s.Plots = []Plot{goodput, waits}
	return s
}

func madeUpFlood(gateways []About) ScenarioResult {
	random := rand.New(rand.NewPCG(1, 2))
	s := ScenarioResult{
		Name: "flood", Title: "One account at 100 times the others' rate", Question: "Does anybody else notice?", Method: "One floods.",
		Columns: []Column{{Name: "Jain's index", Help: "1 is fair", Better: Higher}, {Name: "p99 against alone", Unit: "×", Help: "how much longer", Better: Lower}},
	}
	jain := []Value{0.998, 0.21, 0.24, 0.993, 0.991}
	p99 := []Value{1.2, 1, 41.3, 2.2, 16.9}
	bars := Plot{Name: "flood-jain", Title: "Fairness by service received", Kind: Bars, X: Axis{Label: "Who is unfair", Names: []string{"one account at 100 times the rate", "one account with requests 100 times as costly", "neither"}},
		Y: Axis{Label: "Jain's index"}, Lines: []Line{{Name: "mark: 0.98", At: 0.98}}}
	cdf := Plot{Name: "flood-wait", Title: "Time to first token, by who asks", Kind: CDF, X: Axis{Label: "Time to first token", Unit: "ms", Log: true}, Y: Axis{Label: "Requests that took at most so long"}}
	over := Plot{Name: "flood-over-time", Title: "Goodput while an engine is lost and comes back", Kind: Lines, X: Axis{Label: "Time", Unit: "s"}, Y: Axis{Label: "Tokens of whole answers", Unit: "/s"},
		Lines: []Line{{Name: "engine lost", At: 10, Upright: true}, {Name: "engine back", At: 20, Upright: true}}}
	for i, g := range gateways {
		s.Rows = append(s.Rows, Row{Gateway: g.Name, Values: []Value{jain[i], p99[i]}})
		other := Value(0.45)
		if g.Judged {
			other = 0.991
		}
		bars.Series = append(bars.Series, Series{Gateway: g.Name, Y: []Value{jain[i], other, 0.9995}})
		var quiet, flooding []float64
		for range 2000 {
			quiet = append(quiet, 50+float64(p99[i])*20*random.ExpFloat64())
			flooding = append(flooding, 50+3000*random.ExpFloat64())
		}
		if g.Judged || g.Name == "haproxy" {
			cdf.Series = append(cdf.Series, Series{Name: g.Name + ", quiet account", Gateway: g.Name, X: Quantiles(quiet)},
				Series{Name: g.Name + ", flooding account", Gateway: g.Name, X: Quantiles(flooding), Dashed: true})
		}
		var x, y []Value
		for t := range 61 {
			level := 3200.0
			if t > 20 && t < 40+2*i {
				level = 2400 - 200*float64(i)
			}
			x, y = append(x, Value(t)/2), append(y, Value(level+60*random.NormFloat64()+40*math.Sin(float64(t))))
		}
		over.Series = append(over.Series, Series{Gateway: g.Name, X: x, Y: y})
	}
	s.Plots = []Plot{bars, cdf, over}
	return s
}
