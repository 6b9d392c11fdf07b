package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// watchInterval is how often -watch polls.
const watchInterval = time.Second

// Escape sequences of terminals.
const (
	alternateScreen = "\x1b[?1049h\x1b[?25l" // the shell's screen stays as it is; no cursor
	shellScreen     = "\x1b[?25h\x1b[?1049l"
	cursorHome      = "\x1b[H"
	eraseLineEnd    = "\x1b[K"
	eraseBelow      = "\x1b[J"
)

// runWatch polls until ctx is done. The last state stays on the terminal.
func (c *statusCommand) runWatch(ctx context.Context) error {
	if screenOf(c.out).redraw && !c.json {
		_, _ = io.WriteString(c.out, alternateScreen)
		defer func() {
			_, _ = io.WriteString(c.out, shellScreen)
			if c.state != nil {
				_ = c.print()
			}
		}()
	}
	for {
		began := time.Now()
		err := c.poll(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = c.redraw()
		}
		if err != nil {
			return err
		}
		if !sleep(ctx, watchInterval-time.Since(began)) {
			return nil
		}
	}
}

// redraw prints the state in place of the one before. Lines that do not fit the terminal are left out, and counted.
func (c *statusCommand) redraw() error {
	screen := screenOf(c.out)
	if c.json || !screen.redraw {
		return c.print()
	}
	c.draw(screen)
	lines := strings.Split(strings.TrimRight(screen.String(), "\n"), "\n")
	if room := max(screen.height-1, 2); len(lines) > room {
		more := fmt.Sprintf("(%d more lines: -pool and -colo show less; Ctrl-C shows all)", len(lines)-room+1)
		lines = append(lines[:room-1], string(screen.paint(text.Faint, more)))
	}
	_, err := io.WriteString(c.out, cursorHome+strings.Join(lines, eraseLineEnd+"\n")+eraseLineEnd+eraseBelow)
	return err
}
