package bench

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
)

// Screen is where text is shown.
type Screen struct {
	Width  int  // in columns; the columns of a wider table continue in a table below it
	Colour bool // escape sequences are understood
}

// WriteText writes a report for a terminal.
func WriteText(w io.Writer, r *Report, screen Screen) error {
	var out strings.Builder
	for i := range r.Scenarios {
		screen.writeScenario(&out, &r.Scenarios[i])
	}
	fmt.Fprintf(&out, "%s.\n", r.verdict())
	if r.thresholdTable().Length() > 0 {
		fmt.Fprintf(&out, "\n%s\n\n", r.thresholdTable().Render())
	}
	for _, m := range r.unmet() {
		if len(m.Why) > 0 {
			fmt.Fprintln(&out, screen.bullet(m.Scenario+", "+m.Name+": "+strings.Join(m.Why, " ")))
		}
	}
	if r.Quick {
		fmt.Fprintln(&out, "This was a quick run: its figures are rough, and its thresholds are not judged.")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (s Screen) writeScenario(out *strings.Builder, of *ScenarioResult) {
	fmt.Fprintf(out, "%s  %s\n\n", s.bold(of.Name), of.Title)
	d := dialect{bold: s.bold, newline: "\n"}
	for _, g := range of.tableGroups() {
		for rest := g.columns; len(rest) > 0; {
			n := len(rest)
			rendered := of.table(g, rest, d).Render()
			for ; n > 1 && text.LongestLineLen(rendered) > s.Width; n-- {
				rendered = of.table(g, rest[:n-1], d).Render()
			}
			fmt.Fprintf(out, "%s\n\n", rendered)
			rest = rest[n:]
		}
	}
	for _, n := range of.Notes {
		fmt.Fprintln(out, s.bullet(n))
	}
	if len(of.Notes) > 0 {
		fmt.Fprintln(out)
	}
}

func (s Screen) bold(of string) string {
	if !s.Colour {
		return of
	}
	return text.Bold.EscapeSeq() + of + text.Reset.EscapeSeq()
}

// bullet breaks a paragraph into lines.
func (s Screen) bullet(paragraph string) string {
	var lines []string
	for line := range strings.Lines(text.WrapSoft(paragraph, s.Width-2)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return "- " + strings.Join(lines, "\n  ")
}
