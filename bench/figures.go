package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// noFigure stands where nothing was measured.
const noFigure = "–"

// figure formats a value with three significant digits and without its unit: a run measures no more exactly.
func figure(v Value, unit string) string {
	f := float64(v)
	if unit == "%" {
		f *= 100
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'e', 2, 64), 64)
	switch {
	case !v.Measured():
		return noFigure
	case err != nil || rounded == 0:
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(rounded))))
	if unit == "%" && math.Abs(rounded) >= 1 {
		decimals = min(decimals, 1)
	}
	if decimals > 6 {
		return strconv.FormatFloat(rounded, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', max(decimals, 0), 64)
}

// count formats a whole number of things.
func count(v Value) string { return strconv.FormatFloat(float64(v), 'f', 0, 64) }

func isWhole(v Value) bool { return v.Measured() && float64(v) == math.Trunc(float64(v)) }

// figure formats a value of the table. A column without a unit whose values are all whole counts things.
func (s *ScenarioResult) figure(row, column int) string {
	v, unit := s.Rows[row].value(column), s.Columns[column].Unit
	fraction := func(r Row) bool { return r.value(column).Measured() && !isWhole(r.value(column)) }
	if unit == "" && isWhole(v) && !slices.ContainsFunc(s.Rows, fraction) {
		return count(v)
	}
	return figure(v, unit)
}

// measure formats a value with its unit.
func measure(v Value, unit string) string {
	switch {
	case unit == "" && isWhole(v):
		return count(v)
	case !v.Measured() || unit == "":
		return figure(v, unit)
	}
	return figure(v, unit) + "\u00a0" + unit // which never stands alone on a line
}

// best are the rows with the best figure of a column: several where they read the same.
func (s *ScenarioResult) best(rows []int, column int) []int {
	at := -1
	for _, j := range rows {
		v := s.Rows[j].value(column)
		if !v.Measured() {
			continue
		}
		if at < 0 || (s.Columns[column].Better == higher) == (v > s.Rows[at].value(column)) && v != s.Rows[at].value(column) {
			at = j
		}
	}
	return slices.DeleteFunc(slices.Clone(rows), func(j int) bool {
		return at < 0 || s.figure(j, column) != s.figure(at, column)
	})
}

// cases are the rows of each case, in the order in which the cases first appear.
func (s *ScenarioResult) cases() [][]int {
	var cases [][]int
	at := map[string]int{}
	for j, r := range s.Rows {
		i, known := at[r.Case]
		if !known {
			i, at[r.Case] = len(cases), len(cases)
			cases = append(cases, nil)
		}
		cases[i] = append(cases[i], j)
	}
	return cases
}

// bestLines names the best gateway in each key column, a Markdown bullet for each, and beside it the judged gateway. A
// gateway that refuses more requests serves the rest sooner: where that decides, the line says so, and names the best of
// those that refuse no more than the judged one.
func (s *ScenarioResult) bestLines(judged string) []string {
	var lines []string
	r := ranking{s, judged, slices.IndexFunc(s.Columns, func(c column) bool { return c.Name == "refused" })}
	for k, c := range s.Columns {
		var cases []string
		for _, rows := range s.cases() {
			name := s.Rows[rows[0]].Case
			if !c.Key || len(s.KeyCases) > 0 && !slices.Contains(s.KeyCases, name) {
				continue
			}
			if text := r.describe(rows, k); text != "" {
				cases = append(cases, strings.TrimPrefix(name+": "+text, ": "))
			}
		}
		if len(cases) > 0 {
			lines = append(lines, fmt.Sprintf("*%s*: %s.", c.Name, strings.Join(cases, "; ")))
		}
	}
	return lines
}

// ranking finds the best in a column.
type ranking struct {
	*ScenarioResult
	judged  string
	refused int // the column of refusals; negative: none
}

// refusedTolerance is the share of refusals by which gateways that refuse equally much may differ.
const refusedTolerance = 0.01

// describe names the best of the rows of one case. It is empty if there is nothing to compare.
func (r *ranking) describe(rows []int, k int) string {
	rows = slices.DeleteFunc(slices.Clone(rows), func(j int) bool { return !r.Rows[j].value(k).Measured() })
	if len(rows) < 2 {
		return ""
	}
	best := r.best(rows, k)
	if len(best) == len(rows) {
		return "all " + measure(r.Rows[rows[0]].value(k), r.Columns[k].Unit)
	}
	text := r.name(best, k)
	own := slices.IndexFunc(rows, func(j int) bool { return r.Rows[j].Gateway == r.judged })
	if own < 0 || slices.Contains(best, rows[own]) {
		return text
	}
	isTime, limit := r.Columns[k].Unit == "ms" || r.Columns[k].Unit == "s", r.refusals(rows[own])+refusedTolerance
	if isTime && r.refusals(best[0]) > limit {
		text += fmt.Sprintf(" (%s refused)", measure(r.refusals(best[0]), "%"))
		rest := r.best(slices.DeleteFunc(slices.Clone(rows), func(j int) bool { return r.refusals(j) > limit }), k)
		if !slices.Contains(rest, rows[own]) {
			text += ", then " + r.name(rest, k)
		}
	}
	return text + ", " + r.name(rows[own:own+1], k)
}

func (r *ranking) refusals(row int) Value {
	if r.refused < 0 || !r.Rows[row].value(r.refused).Measured() {
		return 0
	}
	return r.Rows[row].value(r.refused)
}

// name names the gateways of rows, and the value that they share.
func (r *ranking) name(rows []int, k int) string {
	var names []string
	for _, j := range rows {
		names = append(names, r.Rows[j].Gateway)
	}
	return strings.Join(names, " and ") + " " + measure(r.Rows[rows[0]].value(k), r.Columns[k].Unit)
}
