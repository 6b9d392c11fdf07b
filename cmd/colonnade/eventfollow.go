package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"colonnade/cmd/internal/command"
	"colonnade/internal/ctxtime"
)

const (
	pageInterval = time.Second     // between two questions for new events to a node
	lostInterval = 5 * time.Second // between two questions to a node that has not answered
)

// followed calls printNew again and again until ctx is done. A node that does not answer is reported, and asked again: it goes on where it was
// lost.
func (e *events) followed(ctx context.Context, notes io.Writer, printNew func(context.Context) error) error {
	all, interval := e.logs, followInterval
	if len(all) > 0 && all[0].name != "" {
		interval = pageInterval
	}
	defer func() { e.logs = all }()
	for asked := time.Now(); ; {
		e.report(notes, all)
		again := time.Since(asked) >= lostInterval
		if again {
			asked = time.Now()
		}
		e.logs = slices.DeleteFunc(slices.Clone(all), func(l *eventLog) bool { return l.lost && !again })
		for _, l := range e.logs {
			l.lost = false
		}
		if !ctxtime.Sleep(ctx, interval) {
			return nil
		}
		if err := printNew(ctx); err != nil {
			return err
		}
	}
}

// report writes which nodes do not answer any more, and which do again.
func (e *events) report(notes io.Writer, logs []*eventLog) {
	for _, m := range e.missing {
		fmt.Fprintln(notes, "missing: "+command.Printable(m)+"; it is asked again")
	}
	e.missing = nil
	for _, l := range logs {
		if l.reported && !l.lost {
			fmt.Fprintf(notes, "node %s answers again\n", command.Printable(l.name))
		}
		l.reported = l.lost
	}
}
