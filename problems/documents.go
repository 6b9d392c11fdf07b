package problems

import (
	"fmt"

	"colonnade/fleet"
	"colonnade/internal/wording"
	"colonnade/reasons"
)

// AddConflicts adds what two documents claim. Of an alias that another model has, the precedence is defined, so it may be
// intended. A second document for a URL or a key is not in force in part, which is a mistake.
func (l *List) AddConflicts(conflicts []fleet.Conflict) {
	for _, c := range conflicts {
		if c.What == fleet.ConflictAlias {
			l.Warnf(reasons.DocumentConflict, c.Loser, "%s: aliases: %q: requests for it go to %s, which has the same name or alias", c.Loser, c.Value, c.Winner)
		} else {
			l.Errorf(reasons.DocumentConflict, c.Loser, "%s: %s: %q: not in force, since %s has the same %s", c.Loser, c.What, c.Value, c.Winner, c.What)
		}
	}
}

// AddDangling adds a reference that leads nowhere.
func (l *List) AddDangling(d fleet.Dangling) {
	if d.Field == "" {
		l.Warnf(reasons.ReferenceDangling, d.Document, "%s: %s", d.Document, d.Reason)
	} else {
		l.Warnf(reasons.ReferenceDangling, d.Document, "%s: %s: %q: %s", d.Document, d.Field, d.Value, d.Reason)
	}
}

// AddPools adds settings of pools that are allowed but hardly intended.
func (l *List) AddPools(table *fleet.Table) {
	for _, p := range table.Pools() {
		key := fleet.KindPool.Key(p.Name)
		if q := p.Queue; q.MaxWait > 0 && q.PromoteAfter >= q.MaxWait {
			l.Warnf(reasons.PoolSetting, key, "%s: queue.promote_after: %q: no request waits that long, since max_wait is %s, so lower bands are never "+
				"promoted; set less than that, or leave it out for half of max_wait", key, q.PromoteAfter.Std(), q.MaxWait.Std())
		}
		if p.Queue.Discipline != fleet.DisciplineFair || p.Queue.Cost != fleet.CostTokens {
			continue
		}
		if difference := pricesOf(table, p.Name).difference(); difference != "" {
			l.Warnf(reasons.PoolSetting, key, "%s: queue.cost: %q: %s; accounts' shares are then computed in different units: give all models of the "+
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
	text := fmt.Sprintf("priced in %q: %s", p.unit, wording.FirstOf(p.same))
	if len(p.other) > 0 {
		text += "; in another unit: " + wording.FirstOf(p.other)
	}
	if len(p.without) > 0 {
		text += "; without a price, so that an input token costs 1 and an output token 2: " + wording.FirstOf(p.without)
	}
	return text
}
