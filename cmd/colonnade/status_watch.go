package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"colonnade/colo"
	"colonnade/permits"
)

// watchEvery is how often a watch looks.
const watchEvery = time.Second

// Of a terminal: a second screen, beside which what was on the first stays as it was, without a cursor; and back.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l"
	firstScreen = "\x1b[?25h\x1b[?1049l"
	fromTop     = "\x1b[H"
	toLineEnd   = "\x1b[K"
	toEnd       = "\x1b[J"
)

// watch looks again and again, until ctx ends. What it has shown last stays on the terminal.
func (l *look) watch(ctx context.Context, out io.Writer) error {
	began := time.Now()
	s, err := l.take(ctx)
	if err != nil {
		return unlessEnded(ctx, err)
	}
	if terminalOf(out).moves && !l.options.json {
		_, _ = io.WriteString(out, otherScreen) // see failUnwritten
		defer func() {
			t := terminalOf(out)
			_, _ = io.WriteString(out, firstScreen+strings.Join(l.sheet(s, t).text(0, t.colours), "\n")+"\n")
		}()
	}
	for {
		if err := l.draw(out, s, terminalOf(out)); err != nil {
			return err
		}
		if !pause(ctx, watchEvery-time.Since(began)) {
			return nil
		}
		began = time.Now()
		next, err := l.take(ctx)
		if err != nil {
			return unlessEnded(ctx, err)
		}
		s = next
	}
}

// unlessEnded returns no error where it is that we were asked to end.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (l *look) draw(out io.Writer, s *fleetStatus, t terminal) error {
	if l.options.json {
		return writeJSON(out, s, "")
	}
	sheet := l.sheet(s, t)
	if !t.moves {
		_, err := io.WriteString(out, strings.Join(sheet.text(0, t.colours), "\n")+"\n\n")
		return err
	}
	lines := sheet.text(t.width, t.colours)
	if room := max(t.height-1, 2); len(lines) > room {
		more := fmt.Sprintf("(%d more lines: -pool and -colo show less; Ctrl-C shows all)", len(lines)-room+1)
		lines = append(lines[:room-1], firstRunes(more, t.width))
	}
	_, err := io.WriteString(out, fromTop+strings.Join(lines, toLineEnd+"\n")+toLineEnd+toEnd)
	return err
}

// sample is what a pool had counted when it was asked.
type sample struct {
	at                     time.Time
	granted, refused, busy uint64
	full                   float64 // seconds
}

// pace is how a pool's counts have grown since the last look. Nil: that is not known.
type pace struct {
	seconds       float64
	before, after sample
}

func (p *pace) of(what func(pace) uint64) string {
	if p == nil {
		return ""
	}
	return " (" + perSecond(p.each(what)) + ")"
}

// each is how much in a second.
func (p *pace) each(what func(pace) uint64) float64 { return float64(what(*p)) / p.seconds }

func (p pace) grants() uint64   { return p.after.granted - p.before.granted }
func (p pace) refusals() uint64 { return p.after.refused - p.before.refused }
func (p pace) busies() uint64   { return p.after.busy - p.before.busy }

func (p *pace) full() string {
	if p == nil {
		return ""
	}
	share := (p.after.full - p.before.full) / p.seconds
	return fmt.Sprintf(", %.0f%% of the time since the last look", 100*min(max(share, 0), 1))
}

// paceKey names a pool at a server.
func paceKey(n *serverStatus, pool string) string { return n.Document + " " + n.Admin + " " + pool }

// pace compares with the last look. A server that was started again counts from the beginning, and has no pace for
// once.
func (l *look) pace(s *fleetStatus) map[string]pace {
	now, paces := map[string]sample{}, map[string]pace{}
	for i := range s.Servers {
		n := &s.Servers[i]
		for j := range n.Pools {
			pool := &n.Pools[j]
			is := sample{n.asked, pool.Granted, refusedInAll(pool), pool.Refused[permits.Busy], pool.FullSeconds}
			key := paceKey(n, pool.Pool)
			now[key] = is
			was, ok := l.before[key]
			again := is.granted < was.granted || is.refused < was.refused || is.busy < was.busy
			if seconds := is.at.Sub(was.at).Seconds(); ok && !again && seconds > 0 {
				paces[key] = pace{seconds, was, is}
			}
		}
	}
	l.before = now
	return paces
}

// refusedInAll is without those that did not want to wait: they are tried elsewhere.
func refusedInAll(p *colo.PoolState) (n uint64) {
	for why, count := range p.Refused {
		if why != permits.Busy {
			n += count
		}
	}
	return n
}
