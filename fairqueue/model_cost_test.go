package fairqueue_test

import (
	"math"
	"slices"

	"colonnade/fairqueue"
)

// charge raises what a running request is charged, and returns the charge.
func (m *model) charge(c fairqueue.Claim, charged modelCost, used float64) modelCost {
	if used <= charged.cost {
		return charged
	}
	a, b := m.accounts[c.Account], &m.bands[c.Band]
	f := &a.flows[c.Band]
	f.s += (used - charged.cost) / charged.weight
	f.fresh = f.fresh && f.s <= b.v
	b.top = math.Max(b.top, f.s)
	m.settle()
	return modelCost{used, charged.weight}
}

// modelCost is a charge, and the weight by which it was made.
type modelCost struct{ cost, weight float64 }

// passOver advances the flows that were before the one served, and of which no item was accepted.
func (m *model) passOver(b fairqueue.Band, it *fairqueue.Item, accept func(*fairqueue.Item) bool) {
	if m.c.Discipline == fairqueue.FIFO {
		return
	}
	s := m.accounts[it.Account].flows[b].s
	for name, a := range m.accounts {
		f := &a.flows[b]
		if !f.inOrder || name == it.Account || !m.before(name, it.Account, b) || f.s >= s {
			continue
		}
		if f.fresh {
			f.refundFloor = s
		}
		f.s = s
	}
}

// forget keeps the lessons of accounts that the queue has forgotten for the mean of all only.
func (m *model) forget(knows func(string) bool) {
	for _, lessons := range [][]lesson{m.taught, m.charged, m.holds} {
		for i, l := range lessons {
			if !knows(l.account) {
				lessons[i].account = "forgotten"
			}
		}
	}
}

func (m *model) learn(c fairqueue.Claim, used fairqueue.Estimate) {
	if m.c.Learn {
		m.taught = append(m.taught, lesson{c.Account, c.Cost, fairqueue.Estimate{Input: used.Input, Output: used.Output / max(c.Outputs, 1)}})
	}
}

// observeHold notes how long a request of an account with a cap below the slots has held its slot.
func (m *model) observeHold(c fairqueue.Claim, relative float64) {
	if m.limit(m.accounts[c.Account].concurrent) < m.c.Slots {
		m.holds = append(m.holds, lesson{account: c.Account, used: fairqueue.Estimate{Input: relative}})
	}
}

func (m *model) holdsOf(account string) (relative []float64) {
	for _, l := range m.holds {
		if l.account == account {
			relative = append(relative, l.used.Input)
		}
	}
	return relative
}

// estimate folds the lessons of the account, or all if it has none.
func (m *model) estimate(c fairqueue.Claim) float64 {
	if !m.c.Learn {
		return c.Cost
	}
	lessons := slices.Clone(m.taught)
	if own := slices.DeleteFunc(slices.Clone(lessons), func(l lesson) bool { return l.account != c.Account }); taughtAnything(own) {
		lessons = own
	}
	var inputs, claims, outputs []float64
	for _, l := range lessons {
		if !math.IsNaN(l.used.Input) {
			inputs, claims = append(inputs, l.used.Input), append(claims, l.claimed)
		}
		if !math.IsNaN(l.used.Output) {
			outputs = append(outputs, l.used.Output)
		}
	}
	input, output := c.Cost, fold(outputs)*max(c.Outputs, 1)
	if len(claims) > 0 {
		input *= fold(inputs) / fold(claims)
	}
	if c.Output > 0 {
		output = math.Min(output, c.Output)
	}
	var own, all []float64
	for _, p := range m.charged {
		all = append(all, p.used.Input)
		if p.account == c.Account {
			own = append(own, p.used.Input)
		}
	}
	if len(own) < 8 {
		own = all
	}
	if len(own) >= 8 {
		input = math.Min(input, 8*fold(own))
		output = math.Min(output, 8*fold(own)-input)
	}
	return math.Max(input+output, 1e-6)
}

func taughtAnything(lessons []lesson) bool {
	return slices.ContainsFunc(lessons, func(l lesson) bool {
		return !math.IsNaN(l.used.Input) || !math.IsNaN(l.used.Output)
	})
}

// fold is the mean of up to 32 values, and exponentially weighted with 1/32 from there on.
func fold(xs []float64) (mean float64) {
	for i, x := range xs {
		mean += (x - mean) / float64(min(i+1, 32))
	}
	return mean
}
