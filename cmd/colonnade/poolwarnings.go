package main

import (
	"fmt"

	"colonnade/fleet"
)

// addPools adds settings of pools that are allowed but hardly intended.
func (l *problemList) addPools(table *fleet.Table) {
	for _, p := range table.Pools() {
		key := string(fleet.KindPool) + "/" + p.Name
		if q := p.Queue; q.MaxWait > 0 && q.PromoteAfter >= q.MaxWait {
			l.warnf(key, "%s: queue.promote_after: %q: no request waits that long, since max_wait is %s, so lower bands are never "+
				"promoted; set less than that, or leave it out for half of max_wait", key, q.PromoteAfter.Std(), q.MaxWait.Std())
		}
		if p.Queue.Discipline != fleet.DisciplineFair || p.Queue.Cost != fleet.CostTokens {
			continue
		}
		if difference := pricesOf(table, p.Name).difference(); difference != "" {
			l.warnf(key, "%s: queue.cost: %q: %s; accounts' shares are then computed in different units: give all models of the "+
				"pool a cost, with its per and in one unit, or none of them, or set cost: requests", key, p.Queue.Cost, difference)
		}
	}
}

// prices are those of a pool's models.
type prices struct {
	unit           string   // of the first price
	same           []string // models with a price in that unit
	other, without []string // models with a price in another unit, and those without a price
}

func pricesOf(table *fleet.Table, pool string) (p prices) {
	for _, m := range table.Models() {
		switch {
		case m.Pool != pool:
		case !m.Cost.Priced():
			p.without = append(p.without, m.Name)
		case len(p.same) > 0 && m.Cost.Unit != p.unit:
			p.other = append(p.other, fmt.Sprintf("%s (%q)", m.Name, m.Cost.Unit))
		default:
			p.unit, p.same = m.Cost.Unit, append(p.same, m.Name)
		}
	}
	return p
}

// difference says why costs of the models cannot be compared; it is empty if they can.
func (p prices) difference() string {
	if len(p.same) == 0 || len(p.other)+len(p.without) == 0 {
		return ""
	}
	text := fmt.Sprintf("priced in %q: %s", p.unit, firstOf(p.same))
	if len(p.other) > 0 {
		text += "; in another unit: " + firstOf(p.other)
	}
	if len(p.without) > 0 {
		text += "; without a price, so that an input token costs 1 and an output token 2: " + firstOf(p.without)
	}
	return text
}
