package fairqueue_test

import (
	"math"
	"slices"
	"time"

	"colonnade/fairqueue"
)

// model is the queue as the package comment describes it: slices and linear scans, and no account is forgotten.
type model struct {
	c        fairqueue.Config
	was      fairqueue.Discipline // before the last configure
	accounts map[string]*modelAccount
	waiting  []*fairqueue.Item // in the order of arrival here
	rejoined map[*fairqueue.Item]bool
	bands    [3]modelBand
	served   int
	taught   []lesson
	charged  []lesson                    // what was charged in the end, as used.Input
	holds    []lesson                    // how long slots were held relative to the mean, as used.Input
	price    map[*fairqueue.Item]float64 // as estimated when the item came
}

// lesson is what one request says about the next.
type lesson struct {
	account string
	claimed float64
	used    fairqueue.Estimate
}

type modelAccount struct {
	weight     float64
	concurrent int
	flows      [3]modelFlow
}

type modelFlow struct {
	s, refundFloor float64
	fresh          bool
	running        int
	inOrder        bool
}

type modelBand struct{ v, top float64 }

func newModel(c fairqueue.Config) *model {
	return &model{c: c, accounts: map[string]*modelAccount{}, rejoined: map[*fairqueue.Item]bool{}, price: map[*fairqueue.Item]float64{}}
}

func (m *model) configure(c fairqueue.Config) {
	anew := m.c.Learn != c.Learn
	m.was, m.c = m.c.Discipline, c
	if anew {
		m.taught, m.charged = nil, nil
	}
	if anew = anew || m.was != c.Discipline; anew {
		m.bands = [3]modelBand{}
		for _, a := range m.accounts {
			for b := range a.flows {
				a.flows[b].s, a.flows[b].refundFloor, a.flows[b].fresh = 0, 0, true
			}
		}
		for _, it := range m.waiting {
			m.price[it] = m.estimate(it.Claim)
		}
	}
	m.settle()
}

// account reserved the claim's account, with the claim's weight and cap.
func (m *model) account(c fairqueue.Claim) *modelAccount {
	a := m.accounts[c.Account]
	if a == nil {
		a = &modelAccount{}
		m.accounts[c.Account] = a
	}
	a.weight, a.concurrent = c.Weight, c.Concurrent
	m.settle()
	return a
}

func (m *model) push(it *fairqueue.Item) (victims []*fairqueue.Item, err error) {
	m.account(it.Claim)
	if m.count(it.Account) >= m.c.PerAccount {
		return nil, fairqueue.ErrAccountFull
	}
	left := slices.Clone(m.waiting)
	for _, bytes := range []bool{false, true} {
		for m.held(left, bytes)+size(it, bytes) > max(m.bound(bytes), m.held(m.waiting, bytes)) {
			victim := m.victim(left, it, bytes)
			if victim == nil {
				return nil, fairqueue.ErrFull
			}
			victims = append(victims, victim)
			left = without(left, victim)
		}
	}
	for _, v := range victims {
		m.remove(v)
	}
	m.waiting = append(m.waiting, it)
	m.price[it] = m.estimate(it.Claim)
	m.settle()
	return victims, nil
}

func (m *model) rejoin(it *fairqueue.Item) {
	m.account(it.Claim)
	m.waiting = append(m.waiting, it)
	m.rejoined[it] = true
	m.price[it] = m.estimate(it.Claim)
	m.settle()
}

func (m *model) remove(it *fairqueue.Item) {
	m.waiting = without(m.waiting, it)
	delete(m.rejoined, it)
	delete(m.price, it)
	m.settle()
}

// victim reserved the newest item of the account that holds the most, in its band and lower ones; nil if the newcomer's account
// would hold as much, or it does not fit at all.
func (m *model) victim(left []*fairqueue.Item, it *fairqueue.Item, bytes bool) *fairqueue.Item {
	holds := func(account string) float64 {
		sum := int64(0)
		for _, w := range left {
			if w.Account == account {
				sum += size(w, bytes)
			}
		}
		return float64(sum) / m.accounts[account].weight
	}
	var best *fairqueue.Item
	for _, w := range left {
		if w.Band < it.Band {
			continue
		}
		if best == nil || holds(w.Account) > holds(best.Account) ||
			holds(w.Account) == holds(best.Account) && m.older(best, w) {
			best = w
		}
	}
	own := holds(it.Account) + float64(size(it, bytes))/it.Weight
	if best == nil || size(it, bytes) > m.bound(bytes) || holds(best.Account) <= own {
		return nil
	}
	return best
}

// start reserved what the request is charged, and false if it may not run.
func (m *model) start(c fairqueue.Claim) (cost modelCost, ok bool) {
	a := m.account(c)
	if m.capped(a) {
		return modelCost{}, false
	}
	if len(m.items(c.Account, c.Band)) == 0 {
		m.activate(a, c.Band)
	}
	cost = modelCost{m.estimate(c), a.weight}
	m.serve(a, c.Band, cost)
	m.settle()
	return cost, true
}

func (m *model) next(now time.Time, accept func(*fairqueue.Item) bool) (it *fairqueue.Item, cost modelCost) {
	bands := []fairqueue.Band{fairqueue.Interactive, fairqueue.Standard, fairqueue.Batch}
	if oldest := m.oldestInOrder(); oldest != nil && m.served%8 == 7 && m.c.PromoteAfter > 0 &&
		now.Sub(oldest.Arrived) >= m.c.PromoteAfter {
		bands = slices.Insert(bands, 0, oldest.Band)
	}
	for _, b := range bands {
		if it := m.choose(b, accept); it != nil {
			m.served++
			m.passOver(b, it, accept)
			cost := modelCost{m.price[it], m.accounts[it.Account].weight}
			m.serve(m.accounts[it.Account], b, cost)
			m.remove(it)
			return it, cost
		}
	}
	return nil, modelCost{}
}

// choose reserved the first item accepted of the first flow by S that has one, or, FIFO, the oldest accepted of all.
func (m *model) choose(b fairqueue.Band, accept func(*fairqueue.Item) bool) *fairqueue.Item {
	var best *fairqueue.Item
	for name, a := range m.accounts {
		if !a.flows[b].inOrder {
			continue
		}
		items := m.items(name, b)
		i := slices.IndexFunc(items, accept)
		if i < 0 {
			continue
		}
		if best == nil || m.hasTurn(items, i, best, b) {
			best = items[i]
		}
	}
	return best
}

func (m *model) hasTurn(items []*fairqueue.Item, i int, best *fairqueue.Item, b fairqueue.Band) bool {
	if m.c.Discipline == fairqueue.FIFO {
		return m.older(items[i], best)
	}
	return m.before(items[0].Account, best.Account, b)
}

func (m *model) finish(c fairqueue.Claim, charged modelCost, used float64) {
	a := m.accounts[c.Account]
	f := &a.flows[c.Band]
	f.running--
	if used >= 0 {
		f.s = math.Max(f.s+(used-charged.cost)/charged.weight, f.refundFloor)
		if m.c.Learn && used > 0 {
			m.charged = append(m.charged, lesson{account: c.Account, used: fairqueue.Estimate{Input: used}})
		}
		m.bands[c.Band].top = math.Max(m.bands[c.Band].top, f.s)
	}
	m.settle()
}

func (m *model) serve(a *modelAccount, b fairqueue.Band, cost modelCost) {
	f := &a.flows[b]
	m.bands[b].v = math.Max(m.bands[b].v, f.s)
	f.s += cost.cost / cost.weight
	f.fresh = false
	m.bands[b].top = math.Max(m.bands[b].top, f.s)
	f.running++
}

// settle ends busy periods, then activates the flows that have become backlogged.
func (m *model) settle() {
	for b := range m.bands {
		busy := slices.ContainsFunc(m.waiting, func(it *fairqueue.Item) bool { return int(it.Band) == b })
		for _, a := range m.accounts {
			busy = busy || a.flows[b].running > 0
		}
		if !busy {
			m.bands[b].v = m.bands[b].top
		}
	}
	for name, a := range m.accounts {
		for b := range a.flows {
			inOrder := !m.capped(a) && len(m.items(name, fairqueue.Band(b))) > 0
			if inOrder && !a.flows[b].inOrder {
				m.activate(a, fairqueue.Band(b))
			}
			a.flows[b].inOrder = inOrder
		}
	}
}

func (m *model) activate(a *modelAccount, b fairqueue.Band) {
	a.flows[b].refundFloor = m.floor(b)
	a.flows[b].s = math.Max(a.flows[b].s, a.flows[b].refundFloor)
	a.flows[b].fresh = a.flows[b].s <= m.bands[b].v
}

// floor is L: V, or the S of the flow at the head of the order if that is less.
func (m *model) floor(b fairqueue.Band) float64 {
	first := ""
	for name, a := range m.accounts {
		if a.flows[b].inOrder && (first == "" || m.before(name, first, b)) {
			first = name
		}
	}
	if first == "" || m.c.Discipline == fairqueue.FIFO {
		return m.bands[b].v
	}
	return math.Min(m.bands[b].v, m.accounts[first].flows[b].s)
}

// before reports whether one backlogged account of a band is before another in the order.
func (m *model) before(name, other string, b fairqueue.Band) bool {
	f, g := m.accounts[name].flows[b], m.accounts[other].flows[b]
	if f.fresh != g.fresh {
		return f.fresh
	}
	if !f.fresh && f.s != g.s {
		return f.s < g.s
	}
	return m.older(m.items(name, b)[0], m.items(other, b)[0])
}

func (m *model) ahead(c fairqueue.Claim) float64 {
	above, same, others := 0, 0, map[string]bool{}
	own, ownCost, cost := 0, 0.0, 0.0
	for _, it := range m.waiting {
		switch {
		case it.Band < c.Band:
			above++
		case it.Band == c.Band && it.Account == c.Account:
			own++
			ownCost += m.price[it]
		case it.Band == c.Band:
			others[it.Account] = true
		}
		if it.Band == c.Band {
			same++
			cost += m.price[it]
		}
	}
	ahead := float64(above + same)
	a := m.accounts[c.Account]
	if a == nil {
		a = &modelAccount{}
	}
	if m.c.Discipline == fairqueue.Fair && same > 0 {
		turn := math.Max(a.flows[c.Band].s-m.floor(c.Band), 0) + ownCost/c.Weight
		share := float64(above + own)
		for name := range others {
			share += 1 + turn*m.accounts[name].weight/(cost/float64(same))
		}
		ahead = math.Min(ahead, share)
	}
	if m.atLimit(c) {
		perSlot := float64(m.c.Slots) / float64(m.limit(c.Concurrent))
		if holds := m.holdsOf(c.Account); len(holds) >= 8 {
			perSlot *= fold(holds)
		}
		ahead = math.Max(ahead, float64(own+1)*perSlot-1)
	}
	return ahead
}

// atLimit reports whether the account runs as many as its cap lets it, while there are slots beyond that.
func (m *model) atLimit(c fairqueue.Claim) bool {
	limit := m.limit(c.Concurrent)
	a := m.accounts[c.Account]
	return limit < m.c.Slots && a != nil && a.running() >= limit
}

func (m *model) limit(own int) int {
	limit := math.MaxInt
	if own > 0 {
		limit = own
	}
	if m.c.MaxShare > 0 && m.c.MaxShare < 1 {
		limit = min(limit, max(1, int(m.c.MaxShare*float64(m.c.Slots))))
	}
	return limit
}

func (m *model) capped(a *modelAccount) bool { return a.running() >= m.limit(a.concurrent) }

func (a *modelAccount) running() (n int) {
	for b := range a.flows {
		n += a.flows[b].running
	}
	return n
}

// items reserved the items of an account in a band, oldest first.
func (m *model) items(account string, b fairqueue.Band) []*fairqueue.Item {
	var items []*fairqueue.Item
	for _, it := range m.waiting {
		if it.Account == account && it.Band == b {
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(x, y *fairqueue.Item) int {
		if m.older(x, y) {
			return -1
		}
		return 1
	})
	return items
}

func (m *model) oldestInOrder() *fairqueue.Item {
	var oldest *fairqueue.Item
	for _, it := range m.waiting {
		if m.accounts[it.Account].flows[it.Band].inOrder && (oldest == nil || m.older(it, oldest)) {
			oldest = it
		}
	}
	return oldest
}

// older compares by arrival; of items that arrived together, those that rejoined are first, the last of them foremost, then
// the others in the order in which they were pushed.
func (m *model) older(x, y *fairqueue.Item) bool {
	if !x.Arrived.Equal(y.Arrived) {
		return x.Arrived.Before(y.Arrived)
	}
	if m.rejoined[x] != m.rejoined[y] {
		return m.rejoined[x]
	}
	return (slices.Index(m.waiting, x) < slices.Index(m.waiting, y)) != m.rejoined[x]
}

func (m *model) count(account string) (n int) {
	for _, it := range m.waiting {
		if it.Account == account {
			n++
		}
	}
	return n
}

func (m *model) held(items []*fairqueue.Item, bytes bool) (sum int64) {
	for _, it := range items {
		sum += size(it, bytes)
	}
	return sum
}

func (m *model) bound(bytes bool) int64 {
	if bytes {
		return m.c.Bytes
	}
	return int64(m.c.Limit)
}

func size(it *fairqueue.Item, bytes bool) int64 {
	if bytes {
		return it.Bytes
	}
	return 1
}

func without(items []*fairqueue.Item, it *fairqueue.Item) []*fairqueue.Item {
	return slices.DeleteFunc(slices.Clone(items), func(other *fairqueue.Item) bool { return other == it })
}
