package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// What there is room for of an answer that nobody reads: about 1 MiB in the sockets before and behind Colonnade, and 0.3 MiB
// in those of HAProxy, which grow to 8 MiB where packets are as large as loopback has them. So answers are longer than that,
// and packets not so large (see [conns.dial]).
const (
	wideToken  = 128 << 10
	slowFactor = 8 // as long as an answer takes, a slow client takes to read it
)

// slowRate is how many bytes a slow client reads each second.
func (z preset) slowRate() int {
	return int(float64(wideToken*z.tokens) / (slowFactor * z.timing.serviceTime(z.tokens).Seconds()))
}

// slowWindows are what is measured while nobody reads slowly, and while some do: long enough for several requests of each
// account that does.
func (z preset) slowWindows() (none, some interval) {
	if z.quick {
		return interval{z.seconds(2), z.seconds(6)}, interval{z.seconds(6), z.seconds(24)}
	}
	return interval{z.seconds(2), z.seconds(7)}, interval{z.seconds(4), z.seconds(19)}
}

const (
	markOthers = "work of those who read at once, of their share"
	plotSlots  = "slots"

	slowLoad   = 1.5  // of the capacity: what all ask for together
	quietShare = 0.05 // of the capacity: what each quiet account asks for
)

// slowReadersScenario are clients that read more slowly than engines write, so that engines have to wait for them.
func slowReadersScenario() Scenario {
	return Scenario{
		Name: "slow-readers", Title: "Clients that read slowly",
		question: "Clients that read slowly hold slots for longer than their answers take: at whose cost?",
		method: func(z preset) string {
			_, some := z.slowWindows()
			return fmt.Sprintf("Eight accounts ask alike (Poisson), together for one and a half times what two quiet "+
				"ones leave, which ask now and then, for 5 %% of the capacity each. First all read at once what comes; then, "+
				"for %s, every second of the eight reads slowly: answers of %.1f MiB on the average, %d KiB a "+
				"second, from a buffer of %d KiB, in packets of %d bytes, which is %d times as long as the answer takes. What no "+
				"buffer on the way has room for holds up the engine, and its slot with it.\n\n"+
				"A slot that is held for a slow reader is not capacity that the gateway has lost, as long as the reader's "+
				"account has no more than its share: what that makes of it is its own affair. So the other four are judged by: "+
				"the work of their answered requests, of what their share of the slots can do, which is half of what quiet "+
				"accounts leave. It is below 100 %% where slow readers have slots that the others wait for.",
				some.end, float64(z.tokens*wideToken)/(1<<20), z.slowRate()>>10, slowBuffer>>10, slowPacket, slowFactor)
		},
		accounts: slowAccounts(), minAccounts: 3, minEngines: 1,
		columns: []Column{
			{Name: "of share", Unit: "%", Better: Higher, Key: true, Help: "Work of the accounts' answered requests, of what their " +
				"share of the slots can do."},
			{Name: "Jain", Better: Higher, Key: true, Help: "Jain's index over the slot time of the accounts that want more than " +
				"their share: 1 is fair."},
			{Name: "slots", Unit: "%", Help: "Slot time that the accounts got, of all slots. What nobody got are mostly " +
				"slots that the gateway takes for held, until the last of an answer has gone from it to a slow reader."},
			{Name: "held", Unit: "×", Help: "How long requests hold their slot, of how long the engine needs for " +
				"them: mean. The less, the more of an answer finds room on the way."},
			{Name: "wait p50", Unit: "ms", Better: Lower, Help: "Time to the first token less the engine's own, the median."},
			{Name: "wait p99", Unit: "ms", Better: Lower, Key: true, Help: "The same, 99th percentile."},
			{Name: "none: p50", Unit: "ms", Better: Lower, Help: "The median wait of the same " +
				"accounts while nobody reads slowly."},
			{Name: "none: p99", Unit: "ms", Better: Lower, Help: "The same, 99th percentile."},
			{Name: "refused", Unit: "%", Help: "Requests that were refused, of all."},
			{Name: "failed", Better: Lower, Help: "Requests that got neither a whole answer nor a refusal."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		keyCases: []string{"all", "quiet accounts", "others"},
		plots: []Plot{{Name: plotSlots, Title: "Who has the slots, where half of the accounts read slowly", Kind: Bars,
			X: Axis{Label: "accounts", Names: []string{"those that read slowly", "as many that do not", "nobody"}},
			Y: Axis{Label: "slot time", Unit: "%"}}},
		thresholds: []threshold{{name: markOthers, unit: "%", min: 0.95, quick: 0.8},
			{name: markJain, min: 0.98, quick: 0.8}, leakedMark}, // a quick run has few requests that are slow
		duration: func(z preset) time.Duration {
			none, some := z.slowWindows()
			return none.end + some.end + 2*z.grace + z.seconds(1)
		},
		run: playSlow,
	}
}

// slowAccounts are those of whom a few suffice: one that is quiet, one that reads slowly, one other.
func slowAccounts() []string {
	teams := named(teamCount, team)
	return slices.Concat([]string{quiet(0)}, teams[:2], []string{quiet(1)}, teams[2:])
}

// readerGroups are who takes part, by how they ask and read.
type readerGroups struct{ quiet, slow, others []string }

func (s *scenarioRun) groups() (r readerGroups) {
	for _, name := range s.accounts {
		switch {
		case strings.HasPrefix(name, "quiet"):
			r.quiet = append(r.quiet, name)
		case len(r.slow) < len(r.others):
			r.slow = append(r.slow, name)
		default:
			r.others = append(r.others, name)
		}
	}
	return r
}

// greedy are those that want more than their share.
func (r *readerGroups) greedy() []string { return slices.Concat(r.slow, r.others) }

// left is the part of the capacity that quiet accounts leave.
func (r *readerGroups) left() float64 { return 1 - quietShare*float64(len(r.quiet)) }

// slowTrial is a trial in which these read slowly.
func (s *scenarioRun) slowTrial(name string, window interval, r *readerGroups, slow []string) *trial {
	z, rate := s.preset, s.rates[s.preset.shape()]
	t := &trial{name: name, timing: z.timing, window: window, seed: 7}
	for i, account := range r.quiet {
		t.flows = append(t.flows, flow{account: account, tokens: z.tokens,
			due: steady(newRand(1, uint64(i)), quietShare*rate, z.loadInterval(window))})
	}
	each := slowLoad * rate * r.left() / float64(len(r.greedy()))
	for i, account := range r.greedy() {
		f := flow{account: account, tokens: z.tokens, due: poisson(newRand(7, uint64(i)), each, z.loadInterval(window))}
		if slices.Contains(slow, account) {
			f.tokenBytes, f.behaviour.readRate = wideToken, z.slowRate()
		}
		t.flows = append(t.flows, f)
	}
	return t
}

func playSlow(ctx context.Context, s *scenarioRun) error {
	who := s.groups()
	noneWindow, someWindow := s.preset.slowWindows()
	none, err := s.runTrial(ctx, s.slowTrial("nobody slow", noneWindow, &who, nil))
	if err != nil {
		return err
	}
	some, err := s.runTrial(ctx, s.slowTrial("slow readers", someWindow, &who, who.slow))
	if err != nil {
		return err
	}
	s.reportSlow(none, some, &who)
	return nil
}

func (s *scenarioRun) reportSlow(none, some *result, who *readerGroups) {
	nan := float64(Unmeasured())
	capacity := s.rates[s.preset.shape()] * s.workOf(s.preset.shape())
	due := who.left() * float64(len(who.others)) / float64(len(who.greedy()))
	goodput := some.goodput(who.others...) / (capacity * due)
	fair, leaked := jainIndex(some.service(who.greedy())), max(none.leakedValue(), some.leakedValue())
	used := some.slotShare(s.accounts)
	s.addRow("all", nan, fair, used, nan, nan, nan, nan, nan, nan, nan, leaked)
	for _, c := range []struct {
		name     string
		accounts []string
		goodput  float64
	}{{"quiet accounts", who.quiet, nan}, {"others", who.others, goodput}, {"slow readers", who.slow, nan}} {
		asked := some.dueInWindow(c.accounts...)
		waits, before := some.waits(asked), none.waits(none.dueInWindow(c.accounts...))
		s.addRow(c.name, c.goodput, nan, some.slotShare(c.accounts), some.holdRatio(c.accounts), quantile(waits, 0.5), quantile(waits, 0.99),
			quantile(before, 0.5), quantile(before, 0.99), ratio(countOutcome(asked, refused), len(asked)),
			float64(countOutcome(asked, failed)), nan)
	}
	s.addSeries(plotSlots, Series{Y: []Value{Value(some.slotShare(who.slow)), Value(some.slotShare(who.others)), Value(1 - used)}})
	s.lines[plotSlots] = []Line{{Name: "fair share", At: Value(due)}}
	s.checkCapacity(none.goodput() / capacity)
	s.observe(markOthers, goodput)
	s.observe(markJain, fair)
	s.observe(markLeaked, leaked)
	s.noteFailures(some)
}

// slotShare is the slot time that accounts got, of all there was.
func (r *result) slotShare(accounts []string) float64 {
	sum := 0.0
	for _, x := range r.service(accounts) {
		sum += x
	}
	return sum / (float64(r.slots) * r.trial.window.duration().Seconds())
}

// holdRatio is how long requests of these accounts that were served hold their slot, as a multiple of what the engine needs: the
// mean of those that held one in the window.
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
