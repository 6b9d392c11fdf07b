package bench

import (
	"context"
	"fmt"
	"time"
)

const chartWeights = "weights"

var minWeightedJain = threshold{name: "Jain's index of service by weight", limit: 0.98, quick: 0.9}

// classesScenario has accounts of three priorities, and accounts of three weights.
func classesScenario() Scenario {
	return Scenario{
		Name: "classes", Title: "accounts of three priorities and of three weights",
		question: "Are higher priorities served first, and does each account get the share of its weight?",
		method: func(p preset) string {
			return "By priority: one account of each priority asks (Poisson arrivals), for 60, 30 and 10 % of 1.5 times the " +
				"capacity. The interactive requests fit into the capacity, and should neither wait nor be refused. Where a gateway " +
				"can, every eighth grant goes to a lower priority with a request that has waited for half of the longest wait, so " +
				"that none starves.\n\nBy weight: three accounts of weights 6, 3 and 1 ask for 80 % of the capacity each. " +
				fmt.Sprintf("Both parts are measured for %s, and the load continues for %s after that.", p.seconds(5), p.grace)
		},
		accounts: append(append([]string{}, priorityAccounts...), weightAccounts...), needsPriorities: true,
		columns: []column{
			columnGoodput,
			columnJain.withHelp("Jain's index of slot time divided by weight."),
			{Name: "service", Unit: "%", Help: "slot time of the account, relative to all slot time that was used."},
			{Name: "answered", Unit: "%", Better: higher, Help: "share of the account's requests that were answered under load."},
			columnRefused.withHelp("share of the account's requests that were refused. The rest was waiting or being answered at the end."),
			columnWaitP50.withKey(true),
			columnWaitP99,
			columnLeaked,
		},
		// A shorter wait of another account means a longer one of an account of higher priority or weight.
		keyCases: []string{"by priority", "by weight", "interactive"},
		charts: []chart{{Name: chartWeights, Title: "Service by weight", Kind: barChart,
			X: axis{Label: "account (weight)", Names: []string{"gold (6)", "silver (3)", "bronze (1)"}},
			Y: axis{Label: "service", Unit: "%"}, RefLines: weightLines()}},
		thresholds: []threshold{minGoodput, minWeightedJain, noLeaks},
		duration:   func(p preset) time.Duration { return 2 * p.seconds(7.7) },
		run: func(ctx context.Context, s *scenarioRun) error {
			if err := s.measureClasses(ctx, "by priority", priorityAccounts, []float64{0.9, 0.45, 0.15}, nil); err != nil {
				return err
			}
			return s.measureClasses(ctx, "by weight", weightAccounts, []float64{0.8, 0.8, 0.8}, weights)
		},
	}
}

// weightLines are the shares that the weights demand.
func weightLines() []refLine {
	var lines []refLine
	for _, w := range weights {
		lines = append(lines, refLine{Name: "fair share", At: Value(w) / 10})
	}
	return lines
}

// measureClasses measures accounts that ask for parts of the capacity. weights are nil where priorities differ.
func (s *scenarioRun) measureClasses(ctx context.Context, name string, accounts []string, demand []float64, weights []int) error {
	p := s.preset
	rate := s.rates[p.shape()]
	t := trial{name: name, timing: p.timing, window: interval{p.seconds(1.5), p.seconds(6.5)}, seed: 8}
	for i, account := range accounts {
		t.flows = append(t.flows, flow{account: account, tokens: p.tokens,
			due: poisson(newRand(8, uint64(i)), demand[i]*rate, p.loadInterval(t.window))})
	}
	r, err := s.runTrial(ctx, &t)
	if err != nil {
		return err
	}
	service := r.service(accounts)
	sum := 0.0
	for _, x := range service {
		sum += x
	}
	total := figures{"goodput": r.goodput() / (rate * s.work(p.shape())), "leaked": r.leakedValue()}
	if weights != nil {
		part, bars := make([]float64, len(service)), series{}
		for i := range service {
			part[i] = service[i] / float64(weights[i])
			bars.Y = append(bars.Y, Value(service[i]/sum))
		}
		total["Jain"] = jainIndex(part)
		s.observe(minWeightedJain, total["Jain"])
		s.addSeries(chartWeights, bars)
	}
	s.observe(minGoodput, total["goodput"])
	s.checkCapacity(total["goodput"])
	s.observe(noLeaks, total["leaked"])
	s.addRow(name, total)
	for i, account := range accounts {
		requests := r.dueInWindow(account)
		waits := r.waits(requests)
		s.addRow(account, figures{"service": service[i] / sum, "answered": ratio(countOutcome(requests, completed), len(requests)),
			"refused": ratio(countOutcome(requests, refused), len(requests)), "wait p50": quantile(waits, 0.5),
			"wait p99": quantile(waits, 0.99)})
	}
	return nil
}
