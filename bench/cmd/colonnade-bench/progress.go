package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"colonnade/bench"
)

// progressLine shows how far a benchmark is: on a terminal in one line that is rewritten, else in a line for whatever
// begins.
type progressLine struct {
	to      io.Writer
	rewrite bool
	last    string
}

// progressWidth is that of the narrowest terminal that is thought of; a longer line could not be rewritten.
const progressWidth = 79

func (l *progressLine) show(p bench.Progress) {
	parts := []string{p.Scenario, p.Gateway, p.Doing}
	what := strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
	left := ""
	if p.Left > 0 {
		left = ", " + roughly(p.Left) + " left"
	}
	if !l.rewrite {
		if what != l.last {
			fmt.Fprintf(l.to, "%3.0f %%  %s%s\n", 100*p.Done, what, left)
		}
		l.last = what
		return
	}
	line := fmt.Sprintf("%3.0f %%  ", 100*p.Done)
	if room := progressWidth - utf8.RuneCountInString(line+left); utf8.RuneCountInString(what) > room {
		what = string([]rune(what)[:room-1]) + "…"
	}
	line += what + left
	fmt.Fprint(l.to, "\r"+line+strings.Repeat(" ", max(0, utf8.RuneCountInString(l.last)-utf8.RuneCountInString(line))))
	l.last = line
}

// end leaves the line empty for what comes.
func (l *progressLine) end() {
	if l.rewrite && l.last != "" {
		fmt.Fprint(l.to, "\r"+strings.Repeat(" ", utf8.RuneCountInString(l.last))+"\r")
	}
}

// roughly writes how long something will take, no more exactly than that is known.
func roughly(d time.Duration) string {
	switch {
	case d < 90*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 90*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}

// isTerminal says whether somebody may be looking.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
