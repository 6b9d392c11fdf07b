package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"colonnade/cmd/internal/command"
)

// screen collects what a command prints for people. Whatever it is given, but for painted text, is made printable.
type screen struct {
	strings.Builder

	width, height int  // of the terminal; 0: no limit
	redraw        bool // the cursor can be moved
	colour        bool
}

// screenOf returns an empty screen for a command's output.
func screenOf(out io.Writer) *screen {
	s := &screen{}
	file := command.File(out)
	if file == nil {
		return s
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return s
	}
	s.width, s.height = width, height
	s.redraw = os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
	s.colour = s.redraw && os.Getenv("NO_COLOR") == ""
	return s
}

// show prints what draw writes to the screen of a command's output.
func show(out io.Writer, draw func(*screen)) error {
	s := screenOf(out)
	draw(s)
	_, err := io.WriteString(out, s.String())
	return err
}

// say prints text for people, wrapped where the output is a terminal.
func say(out io.Writer, text string) error {
	return show(out, func(s *screen) { s.paragraph("", text) })
}

// painted is printable text with escape sequences of colours.
type painted string

func (s *screen) paint(colour text.Color, v any) painted {
	plain := printable(v)
	if !s.colour || plain == "" {
		return painted(plain)
	}
	return painted(colour.EscapeSeq() + plain + text.Reset.EscapeSeq())
}

func printable(v any) string {
	if p, ok := v.(painted); ok {
		return string(p)
	}
	return command.Printable(fmt.Sprint(v))
}

// line writes one line.
func (s *screen) line(parts ...any) {
	for _, part := range parts {
		s.WriteString(printable(part))
	}
	s.WriteByte('\n')
}

// paragraph writes text that may need several lines. The first begins with a label, the others below its end.
func (s *screen) paragraph(label string, body any) {
	body = painted(printable(body))
	if s.width > len(label) {
		body = painted(text.WrapSoft(printable(body), s.width-len(label)))
	}
	for line := range strings.SplitSeq(printable(body), "\n") {
		s.line(label, painted(strings.TrimRight(line, " ")))
		label = strings.Repeat(" ", len(label))
	}
}

// bar shows the used part in ten characters: none and all of them only if it is none and all.
func (s *screen) bar(used, all int, colour text.Color) painted {
	const width = 10
	n := 0
	if used > 0 && used < all {
		n = min(max(int(float64(used)/float64(all)*width+0.5), 1), width-1)
	} else if used > 0 {
		n = width
	}
	return s.paint(colour, strings.Repeat("█", n)) + s.paint(text.Faint, strings.Repeat("░", width-n))
}

// table writes rows below the titles of their columns, and leaves out columns without content. Columns whose titles begin
// with ">" are aligned to the right. Where the table is too wide for the terminal, cells below titles that begin with "~"
// are wrapped; if that is not enough, columns whose titles begin with "?" are left out, the last one first, and before them those that have
// only zeros.
func (s *screen) table(indent string, titles []string, rows [][]any) {
	titles, rows = s.fitted(len(indent), titles, rows)
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.SuppressEmptyColumns()
	t.SetColumnConfigs(s.columns(len(indent), titles, rows))
	var header table.Row
	for _, title := range titles {
		header = append(header, string(s.paint(text.Faint, strings.Trim(title, titleMarks))))
	}
	t.AppendHeader(header)
	for _, row := range rows {
		var cells table.Row
		for _, cell := range row {
			cells = append(cells, printable(cell))
		}
		t.AppendRow(cells)
	}
	for line := range strings.Lines(t.Render()) {
		s.line(indent, painted(strings.TrimRight(line, " \n")))
	}
}

// titleMarks begin titles; see table.
const titleMarks = "?~>"

// fitted returns the titles and rows without the columns that have to be left out.
func (s *screen) fitted(indent int, titles []string, rows [][]any) ([]string, [][]any) {
	for _, onlyZeros := range []bool{true, false} {
		for at := len(titles) - 1; at >= 0 && s.width > 0 && s.widthOf(indent, titles, rows) > s.width; at-- {
			if strings.HasPrefix(titles[at], "?") && (!onlyZeros || isZeros(rows, at)) {
				titles, rows = without(titles, at), withoutColumn(rows, at)
			}
		}
	}
	return titles, rows
}

// widthOf returns the width of a table whose cells are wrapped.
func (s *screen) widthOf(indent int, titles []string, rows [][]any) int {
	width := indent - 2
	for _, c := range s.columns(indent, titles, rows) {
		if c.WidthMax > 0 {
			width += c.WidthMax + 2
		}
	}
	return width
}

// isZeros reports whether a column has nothing but zeros.
func isZeros(rows [][]any, at int) bool {
	return !slices.ContainsFunc(rows, func(row []any) bool {
		cell := text.StripEscape(printable(row[at]))
		return cell != "" && cell != "0" && cell != "-"
	})
}

func without[T any](list []T, at int) []T { return slices.Delete(slices.Clone(list), at, at+1) }

func withoutColumn(rows [][]any, at int) [][]any {
	narrower := make([][]any, len(rows))
	for i, row := range rows {
		narrower[i] = without(row, at)
	}
	return narrower
}

// columns returns the alignment and the width of columns, narrowed from the right until the table fits the terminal.
func (s *screen) columns(indent int, titles []string, rows [][]any) []table.ColumnConfig {
	const least = 8 // columns of a cell that is wrapped
	all := make([]table.ColumnConfig, len(titles))
	over := indent - 2 - s.width
	for i, title := range titles {
		c := &all[i]
		c.Number, c.WidthMaxEnforcer = i+1, text.WrapSoft
		title = strings.TrimPrefix(title, "?")
		if strings.HasPrefix(title, ">") {
			c.Align, c.AlignHeader = text.AlignRight, text.AlignRight
		}
		for _, row := range rows {
			c.WidthMax = max(c.WidthMax, text.StringWidthWithoutEscSequences(printable(row[i])))
		}
		if c.WidthMax > 0 { // else the column is left out
			c.WidthMax = max(c.WidthMax, len(strings.Trim(title, titleMarks)))
			over += c.WidthMax + 2
		}
	}
	for i := len(titles) - 1; i >= 0 && s.width > 0 && over > 0; i-- {
		if width := all[i].WidthMax; strings.HasPrefix(strings.TrimPrefix(titles[i], "?"), "~") {
			all[i].WidthMax = max(min(width, least), width-over)
			over -= width - all[i].WidthMax
		}
	}
	return all
}
