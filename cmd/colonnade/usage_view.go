package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"colonnade/analytics/query"
)

// fieldsOf returns counts by the names that JSON has for them.
func fieldsOf(c *query.Counts) (fields map[string]any, err error) {
	b, err := json.Marshal(c)
	if err == nil {
		err = json.Unmarshal(b, &fields)
	}
	if fields["cost"] == nil && err == nil {
		fields["cost"] = map[string]any{}
	}
	return fields, err
}

// unitsOf returns the units of costs, sorted.
func unitsOf(rows []query.UsageRow) []string {
	units := map[string]bool{}
	for i := range rows {
		for unit := range rows[i].Cost {
			units[unit] = true
		}
	}
	return slices.Sorted(maps.Keys(units))
}

// usageColumn is a column of numbers.
type usageColumn struct {
	title, field string
	optional     bool // left out of the table if all are zero, and where the terminal is narrow
	value        func(*query.Counts) float64
}

var usageColumns = []usageColumn{
	{"REQUESTS", "requests", false, func(c *query.Counts) float64 { return float64(c.Requests) }},
	{"REFUSED", "refused", false, func(c *query.Counts) float64 { return float64(c.Refused) }},
	{"FAILED", "failed", false, func(c *query.Counts) float64 { return float64(c.Failed) }},
	{"GONE", "client_gone", true, func(c *query.Counts) float64 { return float64(c.ClientGone) }},
	{"INFERENCES", "inferences", false, func(c *query.Counts) float64 { return float64(c.Inferences) }},
	{"PROMPT", "prompt_tokens", false, func(c *query.Counts) float64 { return float64(c.PromptTokens) }},
	{"COMPLETION", "completion_tokens", false, func(c *query.Counts) float64 { return float64(c.CompletionTokens) }},
	{"CACHED", "cached_tokens", true, func(c *query.Counts) float64 { return float64(c.CachedTokens) }},
	{"ESTIMATED", "tokens_estimated", true, func(c *query.Counts) float64 { return float64(c.TokensEstimated) }},
	{"AUDIO", "audio_seconds", true, func(c *query.Counts) float64 { return c.AudioSeconds }},
}

// columns returns the columns of some rows, with those of their costs.
func columnsOf(rows []query.UsageRow) []usageColumn {
	all := slices.Clone(usageColumns)
	for _, unit := range unitsOf(rows) {
		all = append(all, usageColumn{title: strings.ToUpper(unit), field: "cost_" + unit, value: func(c *query.Counts) float64 { return c.Cost[unit] }})
	}
	return all
}

func (c *usageCommand) writeCSV(out io.Writer, rows []query.UsageRow) error {
	w := csv.NewWriter(out)
	columns := columnsOf(rows)
	head := slices.Clone(c.groups)
	for _, column := range columns {
		head = append(head, column.field)
	}
	_ = w.Write(head) // Error returns its error
	for i := range rows {
		line := slices.Clone(rows[i].Group)
		for _, column := range columns {
			line = append(line, strconv.FormatFloat(column.value(&rows[i].Counts), 'f', -1, 64))
		}
		_ = w.Write(line)
	}
	w.Flush()
	return w.Error()
}

// draw writes the table for people.
func (c *usageCommand) draw(out *screen, rows []query.UsageRow) {
	out.line(out.paint(text.Faint, c.period()))
	if missing := len(c.events.missing); missing > 0 {
		out.line(out.paint(text.FgRed, fmt.Sprintf("PARTIAL: %s missing, so these sums are too small", wereMissing(missing))))
	}
	if len(rows) == 0 {
		out.line("no request has ended in this time")
		return
	}
	out.line()
	total := query.UsageRow{Group: make([]string, len(c.groups)), Counts: query.Total(rows)}
	columns := slices.DeleteFunc(columnsOf(rows), func(column usageColumn) bool { return column.optional && column.value(&total.Counts) == 0 })
	var titles []string
	for _, name := range c.groups {
		title := strings.ToUpper(name)
		if name != "day" { // which is not wrapped
			title = "~" + title
		}
		titles = append(titles, title)
	}
	for _, column := range columns {
		title := ">" + column.title
		if column.optional || column.field == "inferences" {
			title = "?" + title
		}
		titles = append(titles, title)
	}
	var cells [][]any
	for i := range rows {
		cells = append(cells, usageCells(out, &rows[i], columns))
	}
	if len(c.groups) > 0 && len(rows) > 1 {
		total.Group[0] = "total"
		bold := usageCells(out, &total, columns)
		for i := range bold {
			bold[i] = out.paint(text.Bold, bold[i])
		}
		cells = append(cells, bold)
	}
	out.table("", titles, cells)
}

func wereMissing(n int) string {
	if n == 1 {
		return "1 node is"
	}
	return count(n, "node") + " are"
}

func usageCells(out *screen, r *query.UsageRow, columns []usageColumn) (cells []any) {
	for _, value := range r.Group {
		cells = append(cells, value)
	}
	for _, column := range columns {
		value := column.value(&r.Counts)
		cell := painted(grouped(value))
		if value > 0 && (column.field == "refused" || column.field == "failed") {
			cell = out.paint(text.FgYellow, cell)
		}
		cells = append(cells, cell)
	}
	return cells
}

// grouped returns a number with its thousands apart, and at most four digits behind the point.
func grouped(x float64) string {
	whole, rest, _ := strings.Cut(strconv.FormatFloat(x, 'f', 4, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	if rest = strings.TrimRight(rest, "0"); rest != "" {
		whole += "." + rest
	}
	return whole
}

// period says which time the sums are of.
func (c *usageCommand) period() string {
	first, last := c.usage.Span()
	form := func(t time.Time) string { return t.In(c.zone).Format(time.DateTime) }
	zone, _ := time.Now().In(c.zone).Zone()
	var parts []string
	if !c.filter.Since.IsZero() {
		parts = append(parts, "since "+form(c.filter.Since))
	}
	if !c.filter.Until.IsZero() {
		parts = append(parts, "until "+form(c.filter.Until))
	}
	if !first.IsZero() {
		parts = append(parts, "first event "+form(first), "last event "+form(last))
	}
	return strings.Join(append(parts, "times are "+zone), ", ")
}
