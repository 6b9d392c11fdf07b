package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"colonnade/cmd/internal/command"
)

// progressInterval is the time between two lines of progress where they cannot be rewritten.
const progressInterval = 5 * time.Second

// progress is a line that is rewritten in a terminal; elsewhere, it is a line each progressInterval.
type progress struct {
	out   io.Writer
	last  time.Time
	drawn bool // the cursor is in the line
}

func newProgress(out io.Writer) progress { return progress{out: out} }

// show writes what is going on.
func (p *progress) show(text string) {
	s := screenOf(p.out)
	text = command.Printable(text)
	if s.redraw {
		if runes := []rune(text); s.width > 1 && len(runes) >= s.width {
			text = string(runes[:s.width-2]) + "…"
		}
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
		p.drawn = true
	} else if time.Since(p.last) >= progressInterval {
		p.last = time.Now()
		fmt.Fprintln(p.out, strings.TrimSpace(text))
	}
}

// note writes a line that stays.
func (p *progress) note(text string) {
	p.end()
	fmt.Fprintln(p.out, command.Printable(text))
}

// end leaves the line as it is.
func (p *progress) end() {
	if p.drawn {
		fmt.Fprintln(p.out)
		p.drawn = false
	}
}
