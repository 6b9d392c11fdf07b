package bench

import (
	"embed"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"
)

//go:embed *.md.tmpl
var pageTemplates embed.FS

// writeMarkdown writes a report as a page. Its charts are in the folder dir beside it, and its JSON in dir.json.
func writeMarkdown(w io.Writer, r *Report, dir string) error {
	name := r.page() + ".md.tmpl"
	t, err := template.New(name).Funcs(template.FuncMap{
		"lead":       r.lead,
		"verdict":    r.verdict,
		"thresholds": func() string { return r.thresholdTable().RenderMarkdown() },
		"aims":       func() string { return r.aimTable().RenderMarkdown() },
		"plot":       r.plot,
		"unmet":      r.unmet,
		"tables":     func(s ScenarioResult) string { return s.markdownTables() },
		"best":       func(s ScenarioResult) []string { return s.bestLines(r.judged()) },
		"columns":    func(s ScenarioResult) []column { return s.explainedColumns() },
		"image":      func(s ScenarioResult, c chart) string { return s.image(dir, &c) },
		"judged":     r.judged,
		"got":        func(m unmetThreshold) string { return m.got() },
		"noFigure":   func() string { return noFigure },
		"took":       func() string { return spell(r.Seconds) },
		"date":       func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	}).ParseFS(pageTemplates, name)
	if err != nil {
		return fmt.Errorf("cannot parse %s: %w", name, err)
	}
	return t.Execute(w, struct {
		*Report
		Dir string
	}{r, dir})
}

// judged is the gateway that the thresholds are for; empty: none.
func (r *Report) judged() string {
	i := slices.IndexFunc(r.Gateways, func(g gatewayInfo) bool { return g.Judged })
	if i < 0 {
		return ""
	}
	return r.Gateways[i].Name
}

// unmetThreshold is a threshold that was missed or not measured.
type unmetThreshold struct {
	Scenario string
	*ThresholdResult
}

func (r *Report) unmet() []unmetThreshold {
	var unmet []unmetThreshold
	for s, m := range r.thresholds {
		if !m.Passed {
			unmet = append(unmet, unmetThreshold{s.Name, m})
		}
	}
	return unmet
}

// Failures names the thresholds that were missed though nothing that was measured shows that they cannot be reached.
func (r *Report) Failures() []string {
	var names []string
	for _, m := range r.unmet() {
		if m.Got.Measured() && len(m.Why) == 0 {
			names = append(names, m.Gateway+": "+m.Name)
		}
	}
	return names
}

// goal is what the report calls a threshold.
func (r *Report) goal() string {
	if r.page() == performancePage {
		return "aim"
	}
	return "threshold"
}

// verdict says how many thresholds were met.
func (r *Report) verdict() string {
	all, missed, unmeasured := 0, 0, 0
	for _, m := range r.thresholds {
		all++
		switch {
		case !m.Got.Measured():
			unmeasured++
		case !m.Passed:
			missed++
		}
	}
	text := fmt.Sprintf("%d of %d %ss are met", all-missed-unmeasured, all, r.goal())
	if missed > 0 {
		text += fmt.Sprintf(", %d missed", missed)
	}
	if unmeasured > 0 {
		text += fmt.Sprintf(", %d not measured", unmeasured)
	}
	return text
}

// leadScenario and leadChart are what the page begins with.
const (
	leadScenario = "costly"
	leadCase     = "quiet accounts"
	leadColumn   = "× alone"
)

// lead is the chart that the page begins with and a sentence with its figures; empty if its scenario did not run.
type lead struct{ Image, Text string }

func (r *Report) lead(dir string) *lead {
	at := slices.IndexFunc(r.Scenarios, func(s ScenarioResult) bool { return s.Name == leadScenario })
	if at < 0 || len(r.Scenarios[at].Charts) == 0 {
		return nil
	}
	s := &r.Scenarios[at]
	column := func(name string) int {
		return slices.IndexFunc(s.Columns, func(c column) bool { return c.Name == name })
	}
	times, refused := column(leadColumn), column("refused")
	var waits, refusals []string
	for _, row := range s.Rows {
		if row.Case != leadCase || times < 0 || refused < 0 || !row.value(times).Measured() {
			continue
		}
		if share := row.value(refused); share > refusedTolerance {
			refusals = append(refusals, row.Gateway+" refuses "+measure(share, "%"))
		} else {
			waits = append(waits, measure(row.value(times), "×")+" with "+row.Gateway)
		}
	}
	var text string
	if len(waits) > 0 {
		text = ": relative to the time without that account, their time to first token (p99) is " + strings.Join(waits, ", ")
	}
	if len(refusals) > 0 {
		text += "; of their requests, " + strings.Join(refusals, ", ")
	}
	return &lead{Image: s.image(dir, &s.Charts[0]), Text: text}
}

// spell formats the duration of a run.
func spell(seconds float64) string {
	if seconds < 60 {
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.0f min", seconds/60)
}

func (s *ScenarioResult) markdownTables() string {
	d := dialect{bold: func(text string) string { return "**" + text + "**" }, newline: " "}
	var tables []string
	for _, g := range s.tableGroups() {
		tables = append(tables, s.table(g, g.columns, d).RenderMarkdown())
	}
	return strings.Join(tables, "\n\n")
}

// explainedColumns are those in which anything was measured.
func (s *ScenarioResult) explainedColumns() []column {
	var columns []column
	for k, c := range s.Columns {
		if slices.ContainsFunc(s.Rows, func(r Row) bool { return r.value(k).Measured() }) {
			columns = append(columns, c)
		}
	}
	return columns
}

// image shows a chart; empty if there is nothing to see.
func (s *ScenarioResult) image(dir string, c *chart) string {
	if !c.drawable() {
		return ""
	}
	return fmt.Sprintf("![%s](%s)", c.Title, path.Join(dir, s.file(c)))
}

// plot shows a chart by the names of its scenario and its own; empty if there is none.
func (r *Report) plot(dir, scenario, name string) string {
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		k := slices.IndexFunc(s.Charts, func(c chart) bool { return c.Name == name })
		if s.Name == scenario && k >= 0 {
			return s.image(dir, &s.Charts[k])
		}
	}
	return ""
}

// file is the name of a chart's file.
func (s *ScenarioResult) file(c *chart) string { return s.Name + "-" + c.Name + ".png" }
