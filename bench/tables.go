package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable makes a table that is rendered as text without lines, or as Markdown.
func newTable() table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options, style.Format.Header = table.OptionsNoBordersAndSeparators, text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	return t
}

// tableGroup are cases of which much the same was measured, and the columns in which any of them has a figure.
type tableGroup struct {
	cases   [][]int // rows
	columns []int
}

// tableGroups divides the rows into tables.
func (s *ScenarioResult) tableGroups() []tableGroup {
	var groups []tableGroup
	for _, rows := range s.cases() {
		columns := s.measuredColumns(rows)
		if last := len(groups) - 1; last >= 0 && similar(groups[last].columns, columns) {
			groups[last].cases = append(groups[last].cases, rows)
			groups[last].columns = union(groups[last].columns, columns)
			continue
		}
		groups = append(groups, tableGroup{cases: [][]int{rows}, columns: columns})
	}
	return groups
}

func (s *ScenarioResult) measuredColumns(rows []int) []int {
	var columns []int
	for k := range s.Columns {
		if slices.ContainsFunc(rows, func(j int) bool { return s.Rows[j].value(k).Measured() }) {
			columns = append(columns, k)
		}
	}
	return columns
}

// similar reports whether at least half of all columns are in both lists.
func similar(a, b []int) bool {
	both := slices.DeleteFunc(slices.Clone(a), func(k int) bool { return !slices.Contains(b, k) })
	return 2*len(both) >= len(union(a, b))
}

func union(a, b []int) []int {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// dialect is what differs between tables in text and in Markdown.
type dialect struct {
	bold    func(string) string
	newline string // in a heading
}

// table makes a table of some columns of a group. The name of a case stands in its first row, and the best figures of each
// case are bold, unless all are the same.
func (s *ScenarioResult) table(g tableGroup, columns []int, d dialect) table.Writer {
	t := newTable()
	header, fixed := table.Row{"gateway"}, 1
	named := len(g.cases) > 1 || s.Rows[g.cases[0][0]].Case != ""
	if named {
		header, fixed = table.Row{"case", "gateway"}, 2
	}
	configs := []table.ColumnConfig{{Number: 1, VAlignHeader: text.VAlignBottom}, {Number: 2, VAlignHeader: text.VAlignBottom}}
	for i, k := range columns {
		header = append(header, s.Columns[k].heading(d.newline))
		configs = append(configs, rightAligned(fixed+i+1))
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for _, rows := range g.cases {
		for i, j := range rows {
			row := table.Row{s.Rows[j].Gateway}
			if named {
				name := ""
				if i == 0 {
					name = s.Rows[j].Case
				}
				row = table.Row{name, s.Rows[j].Gateway}
			}
			for _, k := range columns {
				row = append(row, s.cell(rows, j, k, d))
			}
			t.AppendRow(row)
		}
	}
	return t
}

func (s *ScenarioResult) cell(rows []int, j, k int, d dialect) string {
	shown := s.figure(j, k)
	if s.Columns[k].Better == "" {
		return shown
	}
	unmeasured := func(j int) bool { return !s.Rows[j].value(k).Measured() }
	measured := slices.DeleteFunc(slices.Clone(rows), unmeasured)
	if best := s.best(rows, k); slices.Contains(best, j) && len(best) < len(measured) {
		return d.bold(shown)
	}
	return shown
}

// heading is a column's name, its unit, and an arrow to where better figures are.
func (c *column) heading(newline string) string {
	name, unit := c.Name, c.Unit
	if first, rest, long := strings.Cut(name, " from "); long {
		name = first + newline + "from " + rest
	}
	switch c.Better {
	case higher:
		unit += " ↑"
	case lower:
		unit += " ↓"
	}
	if unit == "" {
		return name
	}
	return name + newline + strings.TrimSpace(unit)
}

func rightAligned(column int) table.ColumnConfig {
	return table.ColumnConfig{Number: column, Align: text.AlignRight, AlignHeader: text.AlignRight, VAlignHeader: text.VAlignBottom}
}

// thresholdTable lists the thresholds of all scenarios.
func (r *Report) thresholdTable() table.Writer {
	t := newTable()
	t.AppendHeader(table.Row{"", "scenario", "threshold", "gateway", "wanted", "got"})
	t.SetColumnConfigs([]table.ColumnConfig{rightAligned(5), rightAligned(6)})
	for s, m := range r.thresholds {
		t.AppendRow(table.Row{m.symbol(), s.Name, m.Name, m.Gateway, m.Want, m.got()})
	}
	return t
}

// aimTable lists the aims of all scenarios.
func (r *Report) aimTable() table.Writer {
	t := newTable()
	t.AppendHeader(table.Row{"", "aim", "of", "wanted", "measured"})
	t.SetColumnConfigs([]table.ColumnConfig{rightAligned(4), rightAligned(5)})
	for s, m := range r.thresholds {
		name := fmt.Sprintf("[%s](#%s)", m.Name, anchor(s.Name+": "+s.Title))
		t.AppendRow(table.Row{m.symbol(), name, m.Gateway, m.Want, m.got()})
	}
	return t
}

// anchor is the name by which a heading of a page is linked.
func anchor(heading string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			return c
		}
		return -1
	}, strings.ToLower(heading))
}

// thresholds yields those of all scenarios.
func (r *Report) thresholds(yield func(*ScenarioResult, *ThresholdResult) bool) {
	for i := range r.Scenarios {
		for k := range r.Scenarios[i].Thresholds {
			if !yield(&r.Scenarios[i], &r.Scenarios[i].Thresholds[k]) {
				return
			}
		}
	}
}

func (m *ThresholdResult) symbol() string {
	switch {
	case m.Passed:
		return "✓"
	case !m.Got.Measured():
		return "?"
	}
	return "✗"
}

func (m *ThresholdResult) got() string {
	if !m.Got.Measured() {
		return "not measured"
	}
	return measure(m.Got, m.Unit)
}
