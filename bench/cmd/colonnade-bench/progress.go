package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"colonnade/bench"
)

// progress shows how far a run is: on a terminal in one line, else in a line for whatever begins.
type progress struct {
	to       io.Writer
	terminal bool
	last     string
}

// clearLine moves a terminal's cursor to the beginning of its line and clears the line.
const clearLine = "\r\x1b[2K"

func (p *progress) show(now bench.Progress) {
	parts := []string{now.Scenario, now.Gateway, now.Doing}
	doing := strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
	line := fmt.Sprintf("%3.0f %%  %s", 100*now.Done, doing)
	if now.Left > 0 {
		line += fmt.Sprintf(", %s left", now.Left.Round(time.Second))
	}
	switch {
	case p.terminal:
		fmt.Fprint(p.to, clearLine+text.Trim(line, screenOf(p.to).Width-1))
	case doing != p.last:
		fmt.Fprintln(p.to, line)
	}
	p.last = doing
}

// end clears the line.
func (p *progress) end() {
	if p.terminal && p.last != "" {
		fmt.Fprint(p.to, clearLine)
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// screenOf describes where text is shown.
func screenOf(w io.Writer) bench.Screen {
	s := bench.Screen{Width: 120}
	if !isTerminal(w) {
		return s
	}
	if width, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil && width > 0 {
		s.Width = width
	}
	s.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}
