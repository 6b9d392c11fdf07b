package balance

import "math"

// weighted is smooth weighted round robin (nginx's). Each endpoint has a credit. A grant moves the turn on: each endpoint that was open gains
// its weight, and the chosen one pays the sum of them. So that a grant need not touch all, the credit of an open endpoint is a line: it
// grows by its weight with each turn.
type weighted struct {
	lines  []line
	bounds []lineBound
	turns  int64
	sum    int64 // of the weights of the open endpoints

	chosen int    // by the last choice; None: it is granted already, or there was none
	paid   int64  // what it pays
	barred []bool // of that choice
}

// line is the credit of an open endpoint, base + weight * turns. One that is not open has a credit that stays as it is, learned.credit,
// and a line below all others.
type line struct{ base, weight int64 }

// lineBound is a line that none of a group's is above, from a turn on.
type lineBound struct {
	top   int64 // at that turn
	turn  int64
	slope int64 // the greatest weight of the group
}

const (
	shut    = math.MinInt64 / 2 // the base of a line of an endpoint that is not open
	unknown = math.MaxInt64 / 2 // a bound above all lines
)

// fitWeighted prepares the lines, of endpoints that are all shut, if the policy needs them.
func (b *Balancer) fitWeighted() {
	w := weighted{chosen: None}
	if b.config.Policy == WeightedRoundRobin {
		w.lines, w.bounds = make([]line, len(b.endpoints)), make([]lineBound, groupsOf(len(b.endpoints)))
		for i := range w.lines {
			w.lines[i].base = shut
		}
	}
	b.weighted = w
}

// openWeighted notes that an endpoint is open from now on, or not any more.
func (b *Balancer) openWeighted(at int, open bool) {
	w := &b.weighted
	if w.lines == nil {
		return
	}
	l, weight := &w.lines[at], int64(b.endpoints[at].Weight)
	if !open {
		b.endpoints[at].credit = int(l.base + weight*w.turns)
		*l = line{base: shut}
		w.sum -= weight
		return
	}
	*l = line{base: int64(b.endpoints[at].credit) - weight*w.turns, weight: weight}
	w.sum += weight
	w.bounds[at/groupSize] = lineBound{top: unknown}
}

// settleWeighted makes the credits of all endpoints those that they have now.
func (b *Balancer) settleWeighted() {
	for at, l := range b.weighted.lines {
		if l.base != shut {
			b.endpoints[at].credit = int(l.base + l.weight*b.weighted.turns)
		}
	}
}

// chooseWeighted returns the endpoint that is most behind the share of its weight, of those that are open. An endpoint that was full owes
// nothing and is owed nothing for that time, and a request that takes no slot after all uses up no turn.
func (b *Balancer) chooseWeighted(barred []bool) Choice {
	w := &b.weighted
	best, most, turn := None, int64(shut), w.turns+1
	for g := range w.bounds {
		bound := &w.bounds[g]
		if bound.top+bound.slope*(turn-bound.turn) <= most {
			continue
		}
		from := g * groupSize
		*bound = lineBound{top: shut, turn: turn}
		for i, l := range w.lines[from:min(from+groupSize, len(w.lines))] {
			credit := l.base + l.weight*turn
			if credit > bound.top {
				bound.top = credit
			}
			if l.weight > bound.slope {
				bound.slope = l.weight
			}
			if credit > most && (barred == nil || !barred[from+i]) {
				best, most = from+i, credit
			}
		}
	}
	w.chosen, w.paid, w.barred = best, w.sum, barred
	return Choice{At: best, Prefers: None, Why: Turn}
}

// grantWeighted moves the turn on after the last choice, since which only the chosen endpoint has changed. An endpoint that was granted
// without a choice had no competitors.
func (b *Balancer) grantWeighted(at int) {
	w := &b.weighted
	if at != w.chosen {
		return
	}
	w.chosen = None
	l, weight, paid := &w.lines[at], int64(b.endpoints[at].Weight), w.paid
	gain := weight
	if w.barred != nil {
		paid = weight + b.gainBut(at, w.barred)
	} else if w.turns++; l.base != shut {
		gain = 0 // its line has it
	}
	if l.base == shut { // it has no further slot
		b.endpoints[at].credit += int(gain - paid)
	} else {
		l.base += gain - paid
	}
}

// gainBut gives their weights to all open endpoints that are not barred, but for one, and returns the sum.
func (b *Balancer) gainBut(but int, barred []bool) (sum int64) {
	w := &b.weighted
	for at := range w.lines {
		if l := &w.lines[at]; at != but && !barred[at] && l.base != shut {
			l.base += l.weight
			sum += l.weight
		}
	}
	for g := range w.bounds {
		w.bounds[g].turn--
	}
	return sum
}
