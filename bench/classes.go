package bench

import (
	"context"
	"fmt"
	"time"
)

const markWeights = "Jain's index of service by weight"

// classesScenario are requests of three priorities, and accounts of three weights.
func classesScenario() Scenario {
	return Scenario{
		Name: "classes", Title: "Classes of 60, 30 and 10 %",
		question: "Do those go first who are to go first, and does each get what its weight says?",
		method: func(z preset) string {
			return "By priority: one account of each priority asks, for 60, 30 and 10 % of one and a half times the " +
				"capacity (Poisson). What is interactive fits " +
				"in, and should neither wait nor be refused. Before a gateway that is set up so, every eighth grant goes to a " +
				"lower class of which somebody has waited for half of what is waited at most: it is not to starve." +
				"\n\nBy weight: three accounts of weights 6, 3 and 1, each " +
				"of which asks for 80 % of the capacity. " +
				fmt.Sprintf("Each of the two is measured for %s, and the load goes on for %s after that.", z.seconds(5),
					z.grace)
		},
		accounts: append(append([]string{}, priorityAccounts...), weightAccounts...), needsPriorities: true,
		columns: []Column{
			{Name: "goodput", Unit: "%", Better: Higher, Key: true, Help: "Work of answered requests, of what the engines can do."},
			{Name: "Jain", Better: Higher, Key: true, Help: "Jain's index over slot time divided by weight."},
			{Name: "service", Unit: "%", Help: "Slot time that the class got, of all that was used."},
			{Name: "answered", Unit: "%", Better: Higher, Help: "Requests of the class that were answered while the " +
				"load went on."},
			{Name: "refused", Unit: "%", Help: "Requests of the class that were refused. The rest still waited, or " +
				"was being answered, when the load ended."},
			{Name: "wait p50", Unit: "ms", Better: Lower, Key: true, Help: "Time to the first token less the engine's " +
				"own, the median of those that were not refused."},
			{Name: "wait p99", Unit: "ms", Better: Lower, Key: true, Help: "The same, 99th percentile."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		keyCases: []string{"by priority", "by weight", "interactive"}, // who waits less in another has others wait more
		plots: []Plot{
			{Name: "weights", Title: "Service by weight", Kind: Bars, X: Axis{Label: "account " +
				"(weight)", Names: []string{"gold (6)", "silver (3)", "bronze (1)"}},
				Y: Axis{Label: "service", Unit: "%"}, Lines: []Line{{Name: "60 %", At: 0.6}, {Name: "30 " +
					"%", At: 0.3}, {Name: "10 %", At: 0.1}}},
		},
		thresholds: []threshold{goodputMark, {name: markWeights, min: 0.98, quick: 0.9}, leakedMark},
		duration:   func(z preset) time.Duration { return 2 * z.seconds(7.7) },
		run: func(ctx context.Context, s *scenarioRun) error {
			if err := s.measureClasses(ctx, "by priority", priorityAccounts, []float64{0.9, 0.45, 0.15}, nil); err != nil {
				return err
			}
			return s.measureClasses(ctx, "by weight", weightAccounts, []float64{0.8, 0.8, 0.8}, weights)
		},
	}
}

// measureClasses measures one account of each class, asking for parts of the capacity.
func (s *scenarioRun) measureClasses(ctx context.Context, name string, accounts []string, asks []float64, weights []int) error {
	z := s.preset
	rate := s.rates[z.shape()]
	t := trial{name: name, timing: z.timing, window: interval{z.seconds(1.5), z.seconds(6.5)}, seed: 8}
	for i, account := range accounts {
		t.flows = append(t.flows, flow{account: account, tokens: z.tokens,
			due: poisson(newRand(8, uint64(i)), asks[i]*rate, z.loadInterval(t.window))})
	}
	r, err := s.runTrial(ctx, &t)
	if err != nil {
		return err
	}
	nan := float64(Unmeasured())
	goodput, fair := r.goodput()/(rate*s.workOf(z.shape())), nan
	service := r.service(accounts)
	sum := 0.0
	for _, x := range service {
		sum += x
	}
	if weights != nil {
		part, bars := make([]float64, len(service)), Series{}
		for i := range service {
			part[i] = service[i] / float64(weights[i])
			bars.Y = append(bars.Y, Value(service[i]/sum))
		}
		fair = jainIndex(part)
		s.observe(markWeights, fair)
		s.addSeries("weights", bars)
	}
	s.addRow(name, goodput, fair, nan, nan, nan, nan, nan, r.leakedValue())
	for i, account := range accounts {
		who := r.dueInWindow(account)
		waits := r.waits(who)
		s.addRow(account, nan, nan, service[i]/sum, ratio(countOutcome(who, completed), len(who)),
			ratio(countOutcome(who, refused), len(who)), quantile(waits, 0.5), quantile(waits, 0.99), nan)
	}
	s.observeGoodput(goodput, goodput)
	s.observe(markLeaked, r.leakedValue())
	s.noteFailures(r)
	return nil
}
