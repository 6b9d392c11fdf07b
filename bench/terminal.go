package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Screen is what a table is printed on.
type Screen struct {
	Width  int // columns; a table that is wider goes on below
	Colour bool
}

// What a terminal is told to look like.
const (
	plain     = "\x1b[0m"
	brightly  = "\x1b[1m"
	faintly   = "\x1b[2m"
	inGreen   = "\x1b[32m"
	inRed     = "\x1b[31m"
	tableSide = 2 // columns between two
)

// WriteTable prints a report for somebody at a terminal.
func WriteTable(w io.Writer, r *Report, screen Screen) {
	for i := range r.Scenarios {
		screen.writeScenario(w, &r.Scenarios[i])
	}
	for i, line := range verdict(r) {
		if i > 0 {
			line = strings.ReplaceAll(folded("- "+line, screen.Width-2), "\n", "\n  ")
		}
		fmt.Fprintln(w, line)
	}
	if r.Quick {
		fmt.Fprintln(w, "It was a quick run: its figures are rough, and its marks are no verdict.")
	}
}

func (s Screen) dressed(text, dress string) string {
	if !s.Colour || dress == "" {
		return text
	}
	return dress + text + plain
}

func (s Screen) writeScenario(w io.Writer, of *ScenarioResult) {
	fmt.Fprintf(w, "%s  %s\n\n", s.dressed(of.Name, brightly), of.Title)
	figures := cellsOf(of)
	for _, p := range partsOf(of) {
		s.writePart(w, s.columnsOf(of, p, figures))
	}
	for _, m := range of.Thresholds {
		dress := inRed
		switch {
		case m.Passed:
			dress = inGreen
		case !m.Got.Measured():
			dress = faintly
		}
		fmt.Fprintf(w, "%s %s, %s: %s; wanted %s\n", s.dressed(m.tick(), dress), m.Name, m.Gateway, m.got(), m.Want)
	}
	for _, n := range of.Notes {
		fmt.Fprintln(w, s.dressed(strings.ReplaceAll(folded("- "+n, s.Width-2), "\n", "\n  "), faintly))
	}
	if len(of.Thresholds)+len(of.Notes) > 0 {
		fmt.Fprintln(w)
	}
}

// writePart prints a table; what does not fit beside each other goes on below.
func (s Screen) writePart(w io.Writer, columns []printed) {
	for len(columns) > fixedColumns {
		n, width := fixedColumns, 0
		for _, c := range columns[:fixedColumns] {
			width += c.width + tableSide
		}
		for n < len(columns) && (n == fixedColumns || width+columns[n].width <= s.Width) {
			width += columns[n].width + tableSide
			n++
		}
		s.writeColumns(w, columns[:n])
		columns = append(columns[:fixedColumns:fixedColumns], columns[n:]...)
	}
}

// fixedColumns stand at the left of every part of a table: the case and the gateway.
const fixedColumns = 2

// printed is a column of a table as it is printed.
type printed struct {
	head  []string // lines
	cells []string
	dress []string // of each cell
	left  bool     // where it is aligned
	width int
}

func (s Screen) columnsOf(of *ScenarioResult, p part, figures cells) []printed {
	columns := []printed{{left: true}, {left: true}}
	for _, k := range p.columns {
		c := printed{head: strings.Split(folded(of.Columns[k].Name, 8), "\n")}
		if unit := of.Columns[k].Unit; unit != "" {
			c.head = append(c.head, unit)
		}
		columns = append(columns, c)
	}
	for _, rows := range p.cases {
		for i, j := range rows {
			name := of.Rows[j].Case
			if i > 0 {
				name = ""
			}
			columns[0].add(name, faintly)
			columns[1].add(of.Rows[j].Gateway, "")
			for at, k := range p.columns {
				dress := ""
				if figures.best[j][k] {
					dress = brightly
				}
				columns[fixedColumns+at].add(figures.text[j][k], dress)
			}
		}
	}
	for i := range columns {
		for _, text := range slices.Concat(columns[i].head, columns[i].cells) {
			columns[i].width = max(columns[i].width, utf8.RuneCountInString(text))
		}
	}
	return columns
}

func (p *printed) add(text, dress string) {
	p.cells = append(p.cells, text)
	p.dress = append(p.dress, dress)
}

// writeColumns prints columns beside each other. Heads stand at the foot of their lines.
func (s Screen) writeColumns(w io.Writer, columns []printed) {
	high := 0
	for _, c := range columns {
		high = max(high, len(c.head))
	}
	for i := range high {
		var line []string
		for _, c := range columns {
			text := ""
			if at := i - (high - len(c.head)); at >= 0 {
				text = c.head[at]
			}
			line = append(line, s.padded(c, text, faintly))
		}
		writeLine(w, line)
	}
	for j := range columns[0].cells {
		var line []string
		for _, c := range columns {
			line = append(line, s.padded(c, c.cells[j], c.dress[j]))
		}
		writeLine(w, line)
	}
	fmt.Fprintln(w)
}

// padded brings a text to its column's width. Dress takes no room.
func (s Screen) padded(c printed, text, dress string) string {
	room := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(text)))
	if text == "" {
		return room
	}
	if c.left {
		return s.dressed(text, dress) + room
	}
	return room + s.dressed(text, dress)
}

func writeLine(w io.Writer, cells []string) {
	var line strings.Builder
	for i, c := range cells {
		if i > 0 && line.Len() > 0 { // a table without cases begins with the gateways
			line.WriteString(strings.Repeat(" ", tableSide))
		}
		line.WriteString(c)
	}
	fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
}
