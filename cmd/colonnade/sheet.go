package main

import (
	"strings"
	"unicode/utf8"
)

// style is how a text stands out on a terminal with colours: the parameters of SGR.
type style string

const (
	plain style = ""
	bold  style = "1"
	faint style = "2"
	fine  style = "32"
	odd   style = "33"
	bad   style = "1;31"
)

// piece is a text in one style.
type piece struct {
	text  string
	style style
}

// cell is a place in a table: its pieces, one behind the other.
type cell struct {
	pieces []piece
	right  bool // it ends where its column ends
}

func left(text string, s style) cell { return cell{pieces: []piece{{text, s}}} }
func right(text string, s style) cell {
	return cell{pieces: []piece{{text, s}}, right: true}
}

func (c cell) width() (n int) {
	for _, p := range c.pieces {
		n += utf8.RuneCountInString(p.text)
	}
	return n
}

// sheet is lines for a terminal. Whatever stands in it, nothing but what has a width of one column is written.
type sheet struct {
	lines [][]piece
	ascii bool // the terminal has no other characters
}

func (s *sheet) line(pieces ...piece) { s.lines = append(s.lines, pieces) }

// wrapped writes a text over as many lines as it needs; all but the first begin with indent.
func (s *sheet) wrapped(text, indent string, width int, in style) {
	for line := range strings.Lines(wrappedTo(text, indent, width)) {
		s.line(piece{strings.TrimSuffix(line, "\n"), in})
	}
}

// table writes rows whose columns stand below each other, two columns apart.
func (s *sheet) table(indent string, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], c.width())
		}
	}
	for _, row := range rows {
		line := []piece{{text: indent}}
		for i, c := range row {
			if i > 0 {
				line = append(line, piece{text: "  "})
			}
			fill := piece{text: strings.Repeat(" ", widths[i]-c.width())}
			if c.right {
				line = append(append(line, fill), c.pieces...)
			} else {
				line = append(append(line, c.pieces...), fill)
			}
		}
		s.line(line...)
	}
}

// bar shows how much is used of what there is: something and not all of it are never shown as nothing or all.
func (s *sheet) bar(used, all int, in style) []piece {
	const width = 10
	n := 0
	switch {
	case used <= 0:
	case used >= all:
		n = width
	default:
		n = min(max(int(float64(used)/float64(all)*float64(width)+0.5), 1), width-1)
	}
	full, empty := "█", "░"
	if s.ascii {
		full, empty = "#", "-"
	}
	return []piece{{strings.Repeat(full, n), in}, {strings.Repeat(empty, width-n), faint}}
}

// text returns the sheet as it is printed; a line that is longer than width is cut, but for width 0.
func (s *sheet) text(width int, colours bool) []string {
	lines := make([]string, 0, len(s.lines))
	for _, line := range s.lines {
		var out strings.Builder
		left := width
		for _, p := range unpadded(line) {
			text := s.printable(p.text)
			if width > 0 {
				text = firstRunes(text, left)
				left -= utf8.RuneCountInString(text)
			}
			if colours && p.style != plain && text != "" {
				text = "\x1b[" + string(p.style) + "m" + text + "\x1b[0m"
			}
			out.WriteString(text)
		}
		lines = append(lines, out.String())
	}
	return lines
}

// unpadded leaves out spaces at the end of a line.
func unpadded(line []piece) []piece {
	for n := len(line); n > 0; n-- {
		if last := strings.TrimRight(line[n-1].text, " "); last != "" {
			line[n-1].text = last
			return line[:n]
		}
	}
	return nil
}

// printable is the last net: what comes from a node's page has been made safe by seen before, or is replaced here.
func (s *sheet) printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= ' ' && r <= '~' || !s.ascii && (r == '█' || r == '░') {
			return r
		}
		return '?'
	}, text)
}

func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

// seen is a name from somewhere else, for a column: as shown does it, in ASCII, as names are, and cut.
func seen(name string, most int) string {
	name = shownASCII(name)
	if len(name) > most {
		name = name[:most-2] + ".."
	}
	return name
}
