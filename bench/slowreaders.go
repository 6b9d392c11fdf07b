package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sockets buffer about 1 MiB of an answer before and behind Colonnade, and 0.3 MiB before and behind HAProxy; with packets as
// large as those of loopback they grow to 8 MiB. So the answers that are read slowly are longer, and their packets smaller
// (see [conns.dial]).
const (
	slowToken  = 128 << 10 // bytes of a token
	slowFactor = 8         // how many times longer reading takes than generating

	slowBuffer = 8 << 10 // receive buffer of a slow client, in bytes
	slowPacket = 1460    // maximum segment size of its connection, in bytes

	slowLoad   = 1.5  // of all accounts together, relative to the capacity
	quietShare = 0.05 // of each quiet account, relative to the capacity

	chartSlots = "slots"
)

var (
	minFastWork = threshold{name: "work for clients that read at once, relative to their share", unit: "%", limit: 0.95, quick: 0.8}
	minSlowJain = threshold{name: minJain.name, limit: minJain.limit, quick: 0.8} // a quick run has few slow requests
)

// slowRate is how many bytes a slow client reads per second.
func (p preset) slowRate() int {
	return int(float64(slowToken*p.tokens) / (slowFactor * p.timing.serviceTime(p.tokens).Seconds()))
}

// slowWindows are measured without and with slow readers; each account of slow readers has several requests in the second.
func (p preset) slowWindows() (without, with interval) {
	if p.quick {
		return interval{p.seconds(2), p.seconds(6)}, interval{p.seconds(6), p.seconds(24)}
	}
	return interval{p.seconds(2), p.seconds(7)}, interval{p.seconds(4), p.seconds(19)}
}

// slowReadersScenario has clients that read more slowly than engines write, so that engines have to wait for them.
func slowReadersScenario() Scenario {
	return Scenario{
		Name: "slow-readers", Title: "clients that read slowly",
		question: "Clients that read slowly hold slots for longer than their answers take: at whose cost?",
		method: func(p preset) string {
			_, with := p.slowWindows()
			return fmt.Sprintf("Eight accounts ask for the same (Poisson arrivals), together for 1.5 times what two quiet accounts "+
				"leave, which ask for 5 %% of the capacity each. First all clients read at once. Then, for %s, four of the eight "+
				"accounts read slowly: answers of %.1f MiB on average at %d KiB/s, which takes %d times as long as generating "+
				"them, with a receive buffer of %d KiB and packets of %d bytes. Data that "+
				"fit no buffer stop the engine, which keeps its slot.\n\n"+
				"A slot held for a slow reader is no loss as long as the reader's account has no more than its share. So the "+
				"threshold is for the other four accounts: the work of their answered requests, relative to their share of the "+
				"slots, which is half of what the quiet accounts leave. It is below 100 %% if slow readers hold slots that the "+
				"others wait for.",
				with.end, float64(p.tokens*slowToken)/(1<<20), p.slowRate()>>10, slowFactor, slowBuffer>>10, slowPacket)
		},
		accounts: slowAccounts(), minAccounts: 3, minEngines: 1,
		columns: []column{
			{Name: "of share", Unit: "%", Better: higher, Key: true, Help: "work of the accounts' answered requests, relative to their " +
				"share of the slots."},
			columnJain,
			{Name: "slots", Unit: "%", Help: "slot time of the accounts, relative to all slots. The rest are mostly slots that the " +
				"gateway counts as held until it has read the end of an answer, which a slow reader delays."},
			{Name: "held", Unit: "×", Help: "how long requests hold their slot, relative to the time that the engine needs: mean. The " +
				"less, the more of an answer is buffered."},
			columnWaitP50,
			columnWaitP99,
			{Name: "fast p50", Unit: "ms", Better: lower, Help: "wait p50 of the same accounts while all clients read at once."},
			{Name: "fast p99", Unit: "ms", Better: lower, Help: "the same, 99th percentile."},
			columnRefused,
			columnFailed,
			columnLeaked,
		},
		keyCases: []string{caseAll, caseQuiet, caseOthers},
		charts: []chart{{Name: chartSlots, Title: "Slot time, where half of the accounts read slowly", Kind: barChart,
			X: axis{Label: "accounts", Names: []string{"slow readers", "others", "none"}}, Y: axis{Label: "slot time", Unit: "%"}}},
		thresholds: []threshold{minFastWork, minSlowJain, noLeaks},
		duration: func(p preset) time.Duration {
			without, with := p.slowWindows()
			return without.end + with.end + 2*p.grace + p.seconds(1)
		},
		run: runSlowReaders,
	}
}

// slowAccounts begin with a quiet account, an other one and one that reads slowly, which are enough.
func slowAccounts() []string {
	teams := named(teamCount, team)
	return slices.Concat([]string{quiet(0)}, teams[:2], []string{quiet(1)}, teams[2:])
}

// readerGroups are the accounts that take part, by how they ask and read.
type readerGroups struct{ quiet, slow, others []string }

func (s *scenarioRun) readerGroups() (g readerGroups) {
	for _, name := range s.accounts {
		switch {
		case strings.HasPrefix(name, "quiet"):
			g.quiet = append(g.quiet, name)
		case len(g.slow) < len(g.others):
			g.slow = append(g.slow, name)
		default:
			g.others = append(g.others, name)
		}
	}
	return g
}

// demanding are the accounts that ask for more than their share.
func (g *readerGroups) demanding() []string { return slices.Concat(g.slow, g.others) }

// rest is the part of the capacity that quiet accounts leave.
func (g *readerGroups) rest() float64 { return 1 - quietShare*float64(len(g.quiet)) }

// slowTrial is a trial in which the accounts slow read slowly.
func (s *scenarioRun) slowTrial(name string, window interval, g *readerGroups, slow []string) *trial {
	p, rate := s.preset, s.rates[s.preset.shape()]
	t := &trial{name: name, timing: p.timing, window: window, seed: 7}
	for i, account := range g.quiet {
		t.flows = append(t.flows, flow{account: account, tokens: p.tokens,
			due: steady(newRand(1, uint64(i)), quietShare*rate, p.loadInterval(window))})
	}
	each := slowLoad * rate * g.rest() / float64(len(g.demanding()))
	for i, account := range g.demanding() {
		f := flow{account: account, tokens: p.tokens, due: poisson(newRand(7, uint64(i)), each, p.loadInterval(window))}
		if slices.Contains(slow, account) {
			f.tokenBytes, f.behaviour.readRate = slowToken, p.slowRate()
		}
		t.flows = append(t.flows, f)
	}
	return t
}

func runSlowReaders(ctx context.Context, s *scenarioRun) error {
	g := s.readerGroups()
	withoutWindow, withWindow := s.preset.slowWindows()
	without, err := s.runTrial(ctx, s.slowTrial("no slow readers", withoutWindow, &g, nil))
	if err != nil {
		return err
	}
	with, err := s.runTrial(ctx, s.slowTrial("slow readers", withWindow, &g, g.slow))
	if err != nil {
		return err
	}
	s.reportSlowReaders(without, with, &g)
	return nil
}

func (s *scenarioRun) reportSlowReaders(without, with *result, g *readerGroups) {
	capacity := s.rates[s.preset.shape()] * s.work(s.preset.shape())
	share := g.rest() * float64(len(g.others)) / float64(len(g.demanding()))
	used, work := with.slotShare(s.accounts), with.goodput(g.others...)/(capacity*share)
	total := figures{"Jain": jainIndex(with.service(g.demanding())), "slots": used,
		"leaked": max(without.leakedValue(), with.leakedValue())}
	s.checkCapacity(without.goodput() / capacity)
	s.observe(minFastWork, work)
	s.observe(minSlowJain, total["Jain"])
	s.observe(noLeaks, total["leaked"])
	s.addRow(caseAll, total)
	for _, c := range []struct {
		name     string
		accounts []string
	}{{caseQuiet, g.quiet}, {caseOthers, g.others}, {"slow readers", g.slow}} {
		requests := with.dueInWindow(c.accounts...)
		waits, before := with.waits(requests), without.waits(without.dueInWindow(c.accounts...))
		row := figures{"slots": with.slotShare(c.accounts), "held": with.holdRatio(c.accounts), "wait p50": quantile(waits, 0.5),
			"wait p99": quantile(waits, 0.99), "fast p50": quantile(before, 0.5), "fast p99": quantile(before, 0.99),
			"refused": ratio(countOutcome(requests, refused), len(requests)), "failed": float64(countOutcome(requests, failed))}
		if c.name == caseOthers {
			row["of share"] = work
		}
		s.addRow(c.name, row)
	}
	s.addSeries(chartSlots, series{Y: []Value{Value(with.slotShare(g.slow)), Value(with.slotShare(g.others)), Value(1 - used)}})
	s.refLines[chartSlots] = []refLine{{Name: "fair share", At: Value(share)}}
}

// holdRatio is how long the served requests of accounts hold their slot, relative to the time that the engine needs: the mean
// of those that held a slot in the window.
func (r *result) holdRatio(accounts []string) float64 {
	var held, need time.Duration
	for s := range r.eachSample {
		if j := r.job(s); j != nil && j.served && r.slotTime(s) > 0 && slices.Contains(accounts, r.account(s)) {
			held += j.held.duration()
			need += r.trial.timing.serviceTime(j.tokens)
		}
	}
	return held.Seconds() / need.Seconds()
}
