package fairqueue

import (
	"cmp"
	"slices"
	"strings"
)

// Costs are means of what requests have cost: of one account, or of all. Their JSON is what servers tell each other.
type Costs struct {
	Output  MeanCost `json:"output,omitzero"`  // of each of their outputs
	Input   MeanCost `json:"input,omitzero"`   // of their inputs
	Claims  MeanCost `json:"claims,omitzero"`  // what their inputs were claimed to cost
	Charged MeanCost `json:"charged,omitzero"` // total charge at their end
}

// MeanCost is a mean cost, and over how many values it was taken.
type MeanCost struct {
	N     int     `json:"n"`
	Value float64 `json:"value"`
}

// AccountCosts are the costs of one account.
type AccountCosts struct {
	Account string `json:"account"`
	Costs
}

// maxAccountName bounds the name of an account that another server tells, in bytes.
const maxAccountName = 256

// Costs returns what the requests of all accounts have cost.
func (q *Queue) Costs() Costs { return q.learned.costs() }

// Costs returns what the account's requests have cost.
func (a Account) Costs() Costs { return a.account.learned.costs() }

// AdoptCosts takes over what another queue has learned of all accounts, if this one has learned nothing yet. A value that cannot be true
// counts as not known.
func (q *Queue) AdoptCosts(c Costs) {
	if q.config.Learn {
		q.learned.adopt(c)
	}
}

// AdoptAccount takes over what another queue has learned of an account, if this one has learned nothing of it yet. An account that is not
// known is kept as one that was here and is idle.
func (q *Queue) AdoptAccount(c AccountCosts) {
	if !q.config.Learn || c.Account == "" || len(c.Account) > maxAccountName || c.Costs.adopted() == (Costs{}) {
		return
	}
	a := q.accounts[c.Account]
	if a != nil {
		a.learned.adopt(c.Costs)
		return
	}
	a = q.newAccount(&Claim{Account: c.Account, Weight: 1}) // its next claim has its weight and its cap
	a.learned.adopt(c.Costs)
	q.retire(a)
}

func (l *learned) costs() Costs {
	return Costs{Output: l.output.cost(), Input: l.input.cost(), Claims: l.claims.cost(), Charged: l.charged.cost()}.adopted()
}

func (l *learned) adopt(c Costs) {
	if l.output.n+l.input.n+l.charged.n == 0 {
		c = c.adopted()
		l.output, l.input, l.claims, l.charged = c.Output.mean(), c.Input.mean(), c.Claims.mean(), c.Charged.mean()
	}
}

// adopted returns the costs without what cannot be true.
func (c Costs) adopted() Costs {
	c = Costs{Output: c.Output.adopted(), Input: c.Input.adopted(), Claims: c.Claims.adopted(), Charged: c.Charged.adopted()}
	if c.Input.N == 0 || c.Claims.N == 0 { // one says nothing without the other
		c.Input, c.Claims = MeanCost{}, MeanCost{}
	}
	return c
}

func (m mean) cost() MeanCost { return MeanCost{N: m.n, Value: m.value} }

func (m MeanCost) mean() mean { return mean{n: m.N, value: m.Value} }

func (m MeanCost) adopted() MeanCost {
	if m.N <= 0 || !(m.Value >= 0 && m.Value <= maxCost) {
		return MeanCost{}
	}
	return MeanCost{N: min(m.N, meanWindow), Value: m.Value}
}

// Busiest are the accounts of which most is known and most runs and waits, of all that were added: first those with more requests, then
// those with more behind their means, then by name.
type Busiest []BusyAccount

// BusyAccount is an account as it was when it was added to [Busiest].
type BusyAccount struct {
	AccountCosts
	requests int
}

func (b BusyAccount) compare(other BusyAccount) int {
	return cmp.Or(cmp.Compare(other.requests, b.requests), cmp.Compare(other.n(), b.n()), strings.Compare(b.Account, other.Account))
}

func (c *AccountCosts) n() int { return c.Output.N + c.Input.N + c.Charged.N }

// Add adds an account of which something is known, and keeps at most so many.
func (l *Busiest) Add(a Account, most int) {
	b := BusyAccount{AccountCosts{a.Name(), a.Costs()}, a.Running() + a.Waiting()}
	if b.Costs == (Costs{}) {
		return
	}
	if len(*l) >= most {
		if most <= 0 || b.compare((*l)[most-1]) >= 0 {
			return
		}
		*l = (*l)[:most-1]
	}
	at, _ := slices.BinarySearchFunc(*l, b, BusyAccount.compare)
	*l = slices.Insert(*l, at, b)
}
