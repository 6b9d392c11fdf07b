package bench

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// noFigure stands where nothing was measured.
const noFigure = "–"

// figure writes a value with three digits and without its unit: what a run measures is not more exact.
func figure(v Value, unit string) string {
	if !v.Measured() {
		return noFigure
	}
	f := float64(v)
	if unit == "%" {
		f *= 100
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'e', 2, 64), 64)
	if err != nil || rounded == 0 {
		return "0"
	}
	decimals := 2 - int(math.Floor(math.Log10(math.Abs(rounded))))
	if unit == "%" && math.Abs(rounded) >= 1 {
		decimals = min(decimals, 1) // 4.3 %: nobody asks for a hundredth of a per cent
	}
	if decimals > 6 {
		return strconv.FormatFloat(rounded, 'g', -1, 64)
	}
	return grouped(strconv.FormatFloat(f, 'f', max(decimals, 0), 64))
}

// whole writes a number of things.
func whole(v Value) string {
	if !v.Measured() {
		return noFigure
	}
	return grouped(strconv.FormatFloat(float64(v), 'f', 0, 64))
}

// grouped puts a comma between thousands, from 10,000 on.
func grouped(s string) string {
	digits, rest, _ := strings.Cut(s, ".")
	sign := ""
	if d, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = "-", d
	}
	if len(digits) < 5 {
		return s
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return sign + digits + rest
}

// measure writes a value with its unit.
func measure(v Value, unit string) string {
	text := figure(v, unit)
	if unit == "" && isWhole(v) {
		text = whole(v)
	}
	if !v.Measured() {
		return text
	}
	switch unit {
	case "", "/s":
		return text + unit
	}
	return text + "\u00a0" + unit // never at the end of a line by itself
}

func isWhole(v Value) bool { return v.Measured() && float64(v) == math.Trunc(float64(v)) }

// cells are the figures of a table, as written, and which of them are best.
type cells struct {
	text [][]string // by row and column
	best [][]bool
}

// cellsOf writes all figures of a scenario. A column without a unit whose figures are all whole counts things.
func cellsOf(s *ScenarioResult) cells {
	c := cells{}
	for range s.Rows {
		c.text = append(c.text, make([]string, len(s.Columns)))
		c.best = append(c.best, make([]bool, len(s.Columns)))
	}
	for i, column := range s.Columns {
		counts := column.Unit == ""
		for _, r := range s.Rows {
			counts = counts && (!r.value(i).Measured() || isWhole(r.value(i)))
		}
		for j, r := range s.Rows {
			if c.text[j][i] = figure(r.value(i), column.Unit); counts {
				c.text[j][i] = whole(r.value(i))
			}
		}
	}
	c.findBest(s)
	return c
}

// value is that of a column; a row may be too short.
func (r *Row) value(column int) Value {
	if column >= len(r.Values) {
		return Unmeasured()
	}
	return r.Values[column]
}

// findBest marks the best of each column among the rows of a case, and what reads the same. Where all read the same, nobody
// is best.
func (c *cells) findBest(s *ScenarioResult) {
	for _, rows := range casesOf(s) {
		for i, column := range s.Columns {
			if column.Better == "" {
				continue
			}
			best, measured := -1, 0
			for _, j := range rows {
				v := s.Rows[j].value(i)
				if !v.Measured() {
					continue
				}
				measured++
				if best < 0 || (column.Better == Higher) == (v > s.Rows[best].value(i)) && v != s.Rows[best].value(i) {
					best = j
				}
			}
			same := 0
			for _, j := range rows {
				if best >= 0 && c.text[j][i] == c.text[best][i] {
					c.best[j][i] = true
					same++
				}
			}
			for _, j := range rows {
				c.best[j][i] = c.best[j][i] && same < measured
			}
		}
	}
}

// part is a table with some of a scenario's cases, and the columns in which anything was measured for these.
type part struct {
	cases   [][]int // rows
	columns []int
}

// partsOf divides a scenario's rows into tables: cases of which much the same was measured stand in one.
func partsOf(s *ScenarioResult) []part {
	var parts []part
	for _, rows := range casesOf(s) {
		columns := s.measured(rows)
		if last := len(parts) - 1; last >= 0 && alike(parts[last].columns, columns) {
			parts[last].cases = append(parts[last].cases, rows)
			parts[last].columns = joined(parts[last].columns, columns)
			continue
		}
		parts = append(parts, part{cases: [][]int{rows}, columns: columns})
	}
	return parts
}

// measured are the columns in which any of these rows has a figure.
func (s *ScenarioResult) measured(rows []int) []int {
	var columns []int
	for i := range s.Columns {
		if slices.ContainsFunc(rows, func(j int) bool { return s.Rows[j].value(i).Measured() }) {
			columns = append(columns, i)
		}
	}
	return columns
}

// alike says whether more than half of all columns are in both.
func alike(a, b []int) bool {
	both := 0
	for _, c := range a {
		if slices.Contains(b, c) {
			both++
		}
	}
	return 2*both >= len(joined(a, b))
}

func joined(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// casesOf are the rows of each case, in the order in which the cases come first.
func casesOf(s *ScenarioResult) [][]int {
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

// shortest writes a number with at most six digits, and none that says nothing.
func shortest(f float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'g', 6, 64), 64)
	if err != nil {
		return ""
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
