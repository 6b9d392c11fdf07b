package main

import (
	"fmt"

	"colonnade/fleet"
)

// oddPools says of pools what may be meant, but hardly is.
func oddPools(table *fleet.Table) []string {
	return append(unpromoted(table), unlikePrices(table)...)
}

// unpromoted names the pools that say of lower bands that they have turns of their own, and never give them any.
func unpromoted(table *fleet.Table) []string {
	var texts []string
	for _, p := range table.Pools() {
		if q := p.Queue; q.MaxWait > 0 && q.PromoteAfter >= q.MaxWait {
			texts = append(texts, fmt.Sprintf("pools/%s: queue.promote_after: %q: nobody waits for so long, since max_wait "+
				"is %s, so that lower bands have no turns of their own; write less than that, or leave it out for half of it",
				p.Name, q.PromoteAfter.Std(), q.MaxWait.Std()))
		}
	}
	return texts
}

// unlikePrices names the pools whose queues compare what cannot be compared: tokens of models without a price with those
// of others, or prices in two units.
func unlikePrices(table *fleet.Table) []string {
	var texts []string
	for _, p := range table.Pools() {
		if p.Queue.Discipline != fleet.DisciplineFair || p.Queue.Cost != fleet.CostTokens {
			continue
		}
		if odd := pricesIn(table, p.Name).odd(); odd != "" {
			texts = append(texts, fmt.Sprintf("pools/%s: queue.cost: %q: %s; so accounts' shares are reckoned in different "+
				"units: give all models of the pool a cost, with its per and in one unit, or none of them, or write "+
				"cost: requests", p.Name, p.Queue.Cost, odd))
		}
	}
	return texts
}

// prices are those of one pool's models, by name.
type prices struct {
	unit   string   // of the first
	alike  []string // in that unit
	differ []string // in another, which stands with the name
	none   []string
}

func pricesIn(table *fleet.Table, pool string) (p prices) {
	for _, m := range table.Models() {
		switch {
		case m.Pool != pool:
		case !m.Cost.Priced():
			p.none = append(p.none, m.Name)
		case len(p.alike) > 0 && m.Cost.Unit != p.unit:
			p.differ = append(p.differ, fmt.Sprintf("%s (%q)", m.Name, m.Cost.Unit))
		default:
			p.unit, p.alike = m.Cost.Unit, append(p.alike, m.Name)
		}
	}
	return p
}

// odd says how the prices differ; nothing where they do not.
func (p prices) odd() string {
	if len(p.alike) == 0 || len(p.differ)+len(p.none) == 0 {
		return ""
	}
	text := some(p.alike) + " " + oneMany(len(p.alike), "has a price", "have prices")
	if len(p.differ) > 0 {
		text += fmt.Sprintf(" in %q, and others have another unit: %s", p.unit, some(p.differ))
	}
	if len(p.none) > 0 {
		text += ", and " + some(p.none) + " " + oneMany(len(p.none), "has", "have") +
			" none, and a token counts as 1, one of output as 2"
	}
	return text
}
