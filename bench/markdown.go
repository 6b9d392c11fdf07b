package bench

import (
	_ "embed" // of the page's frame
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"
	"time"
	"unicode"
)

//go:embed overload.md.tmpl
var frame string

// WriteMarkdown writes a report as a page. Plots are looked for in the folder dir beside it, and the JSON in dir.json.
func WriteMarkdown(w io.Writer, r *Report, dir string) error {
	page, err := template.New("overload.md").Funcs(template.FuncMap{
		"scenario": func(s ScenarioResult) string { return scenarioPage(&s, r.judged(), dir) },
		"marks":    func() string { return marksPage(r) },
		"missing":  func() string { return noFigure },
	}).Parse(frame)
	if err != nil {
		return fmt.Errorf("cannot parse overload.md.tmpl: %w", err)
	}
	return page.Execute(w, struct {
		*Report
		Dir     string
		Verdict string
		When    string
		Took    string
	}{r, dir, strings.Join(verdict(r), "\n- "), r.Began.UTC().Format("2 January 2006, 15:04 UTC"), spell(r.Seconds)})
}

// verdict says how many marks were reached, and then which were not, a line each.
func verdict(r *Report) []string {
	all, missed := 0, len(r.Missed())
	var rest []string
	for _, s := range r.Scenarios {
		all += len(s.Thresholds)
		for _, m := range s.Thresholds {
			if !m.Passed {
				rest = append(rest, s.Name+": "+m.said())
			}
		}
	}
	first := fmt.Sprintf("%d of %d marks were reached, %d missed, %d not measured:", all-len(rest), all, missed,
		len(rest)-missed)
	switch {
	case all == 0:
		first = "No marks were set."
	case len(rest) == 0:
		first = fmt.Sprintf("All %d marks were reached.", all)
	}
	return append([]string{first}, rest...)
}

// said is a mark in a line.
func (m *ThresholdResult) said() string {
	text := fmt.Sprintf("%s, %s: %s; wanted %s", m.Name, m.Gateway, m.got(), m.Want)
	if m.Why != "" {
		text += "; why: " + m.Why
	}
	return text
}

// got is what a gateway reached.
func (m *ThresholdResult) got() string {
	if !m.Got.Measured() {
		return "not measured"
	}
	return measure(m.Got, m.Unit)
}

// spell writes how long something took.
func spell(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return fmt.Sprintf("%.0f s", seconds)
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

func (m *ThresholdResult) tick() string {
	switch {
	case m.Passed:
		return "✓"
	case !m.Got.Measured():
		return "?"
	}
	return "✗"
}

// marksPage is a table of all marks, so that nobody has to look for those that were missed.
func marksPage(r *Report) string {
	var out strings.Builder
	for _, s := range r.Scenarios {
		for _, m := range s.Thresholds {
			if out.Len() == 0 {
				out.WriteString("\n\n| | scenario | mark | gateway | wanted | got |\n|:-:|:--|:--|:--|--:|--:|\n")
			}
			fmt.Fprintf(&out, "| %s | [%s](#%s) | %s | %s | %s | %s |\n",
				m.tick(), cell(s.Name), anchor(s.Title), cell(m.Name), cell(m.Gateway), cell(m.Want), m.got())
		}
	}
	return out.String()
}

// scenarioPage is what the page says of one scenario.
func scenarioPage(s *ScenarioResult, judged, dir string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n\n*%s* (`-scenario %s`)\n\n%s\n%s\n", s.Title, s.Question, s.Name, strings.TrimSpace(s.Method), tablesPage(s))
	for i, c := range s.Columns {
		if c.Help != "" && slices.ContainsFunc(s.Rows, func(r Row) bool { return r.value(i).Measured() }) {
			fmt.Fprintf(&out, "- *%s*: %s\n", c.Name, c.Help)
		}
	}
	if best := bestLines(s, judged); best != "" {
		fmt.Fprintf(&out, "\nThe best of each, and %s beside it:\n\n%s", judged, best)
	}
	if len(s.Thresholds) > 0 {
		out.WriteString("\n| | mark | gateway | wanted | got |\n|:-:|:--|:--|--:|--:|\n")
	}
	for _, m := range s.Thresholds {
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s |\n", m.tick(), cell(m.Name), cell(m.Gateway), cell(m.Want), m.got())
	}
	for _, m := range s.Thresholds {
		if m.Why != "" {
			fmt.Fprintf(&out, "\nWhy %s misses *%s*: %s\n", m.Gateway, m.Name, m.Why)
		}
	}
	for _, p := range s.Plots {
		if !p.drawable() {
			continue
		}
		fmt.Fprintf(&out, "\n<img src=\"%s/%s.png\" alt=\"%s\" width=\"900\">\n", dir, s.file(p), cell(p.Title))
	}
	if len(s.Notes) > 0 {
		out.WriteByte('\n')
	}
	for _, n := range s.Notes {
		fmt.Fprintf(&out, "- %s\n", n)
	}
	return out.String()
}

// tablesPage are a scenario's tables.
func tablesPage(s *ScenarioResult) string {
	var out strings.Builder
	figures := cellsOf(s)
	for _, p := range partsOf(s) {
		out.WriteByte('\n')
		tablePage(&out, s, p, figures)
	}
	return out.String()
}

// tablePage writes one table. The name of a case stands in its first row.
func tablePage(out *strings.Builder, s *ScenarioResult, p part, figures cells) {
	named := len(p.cases) > 1 || s.Rows[p.cases[0][0]].Case != ""
	head, line := []string{"gateway"}, []string{":--"}
	if named {
		head, line = []string{"case", "gateway"}, []string{":--", ":--"}
	}
	for _, k := range p.columns {
		head, line = append(head, cell(heading(s.Columns[k]))), append(line, "--:")
	}
	fmt.Fprintf(out, "| %s |\n|%s|\n", strings.Join(head, " | "), strings.Join(line, "|"))
	for _, rows := range p.cases {
		for i, j := range rows {
			row := []string{cell(s.Rows[j].Gateway)}
			if named && i == 0 {
				row = []string{cell(s.Rows[j].Case), row[0]}
			} else if named {
				row = []string{"", row[0]}
			}
			for _, k := range p.columns {
				text := figures.text[j][k]
				if figures.best[j][k] {
					text = "**" + text + "**"
				}
				row = append(row, text)
			}
			fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
		}
	}
}

// heading is a column's name with its unit, and where better figures are.
func heading(c Column) string {
	text := c.Name
	if c.Unit != "" {
		text += " (" + c.Unit + ")"
	}
	switch c.Better {
	case Higher:
		text += " ↑"
	case Lower:
		text += " ↓"
	}
	return text
}

// cell makes a text fit a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

// anchor is what GitHub makes of a heading for links.
func anchor(heading string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			out.WriteByte('-')
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			out.WriteRune(r)
		}
	}
	return out.String()
}
