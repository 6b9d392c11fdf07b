package bench

import (
	"fmt"
	"slices"
	"strings"
)

// bestLines says who is best in each key column, a line for each, whoever it is, and beside it what the gateway has that is
// judged. Who turns many away serves the rest quickly: so it says how many, and who is best of those that turn no more away
// than the judged one.
func bestLines(s *ScenarioResult, judged string) string {
	var out strings.Builder
	figures, refusals := cellsOf(s), slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == "refused" })
	for k, column := range s.Columns {
		var cases []string
		for _, rows := range casesOf(s) {
			name := s.Rows[rows[0]].Case
			if !column.Key || len(s.KeyCases) > 0 && !slices.Contains(s.KeyCases, name) {
				continue
			}
			b := columnRanking{s, figures, judged, k, refusals}
			if text := b.of(rows); text != "" {
				cases = append(cases, strings.TrimPrefix(name+": "+text, ": "))
			}
		}
		if len(cases) > 0 {
			fmt.Fprintf(&out, "- *%s*: %s.\n", column.Name, strings.Join(cases, "; "))
		}
	}
	return out.String()
}

// columnRanking finds the best in one column.
type columnRanking struct {
	s                *ScenarioResult
	figures          cells
	judged           string
	column, refusals int // where; refusals is negative where there is no such column
}

// of says who is best in some rows, which are of one case. It is empty if there is nothing to compare.
func (b *columnRanking) of(rows []int) string {
	rows = slices.DeleteFunc(slices.Clone(rows), func(j int) bool { return !b.s.Rows[j].value(b.column).Measured() })
	if len(rows) < 2 {
		return ""
	}
	own := slices.IndexFunc(rows, func(j int) bool { return b.s.Rows[j].Gateway == b.judged })
	best := b.among(rows)
	text := b.named(best)
	if own < 0 || slices.Contains(best, rows[own]) {
		return text
	}
	limit, unit := b.refused(rows[own]), b.s.Columns[b.column].Unit
	if time := unit == "ms" || unit == "s"; time && b.refused(best[0]) > limit+refusedTolerance {
		text += fmt.Sprintf(" (%s refused)", measure(b.refused(best[0]), "%"))
		as := b.among(slices.DeleteFunc(slices.Clone(rows), func(j int) bool { return b.refused(j) > limit+refusedTolerance }))
		if !slices.Contains(as, rows[own]) {
			text += ", then " + b.named(as)
		}
	}
	return text + ", " + b.named(rows[own:own+1])
}

// refusedTolerance is how much more of all may be refused where as many are.
const refusedTolerance = 0.01

func (b *columnRanking) refused(row int) Value {
	if b.refusals < 0 || !b.s.Rows[row].value(b.refusals).Measured() {
		return 0
	}
	return b.s.Rows[row].value(b.refusals)
}

// among are the best of rows: more than one where they read the same.
func (b *columnRanking) among(rows []int) []int {
	best := rows[0]
	for _, j := range rows {
		v, than := b.s.Rows[j].value(b.column), b.s.Rows[best].value(b.column)
		if v != than && (b.s.Columns[b.column].Better == Higher) == (v > than) {
			best = j
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(j int) bool {
		return b.figures.text[j][b.column] != b.figures.text[best][b.column]
	})
}

// named names gateways and what they all have.
func (b *columnRanking) named(rows []int) string {
	var names []string
	for _, j := range rows {
		names = append(names, b.s.Rows[j].Gateway)
	}
	if len(names) == len(b.s.gateways()) && len(names) > 1 {
		names = []string{"all"}
	}
	return strings.Join(names, " and ") + " " + measure(b.s.Rows[rows[0]].value(b.column), b.s.Columns[b.column].Unit)
}

// gateways are those that have rows.
func (s *ScenarioResult) gateways() []string {
	var names []string
	for _, r := range s.Rows {
		if !slices.Contains(names, r.Gateway) {
			names = append(names, r.Gateway)
		}
	}
	return names
}
