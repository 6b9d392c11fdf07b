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
	lostInterval = 5 * time.Second // between two questions to a node that has not answered, and between two lists of the nodes in etcd
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
			asked, all = time.Now(), append(all, e.relist(ctx, notes)...)
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

// relist finds the nodes that have registered since the last list, and returns their logs. Where only new events are wanted, those since that
// list are. A node with another address, for example after a restart, is asked there, and goes on where it was.
func (e *events) relist(ctx context.Context, notes io.Writer) (added []*eventLog) {
	if e.source == nil || e.source.admin != "" {
		return nil
	}
	before := e.listed
	ctx, cancel := context.WithTimeout(ctx, relistTimeout)
	defer cancel()
	now := time.Now()
	nodes, err := e.source.nodes(ctx)
	if err != nil {
		return nil // the nodes that are known are still read
	}
	e.listed = now
	for _, n := range nodes {
		at := slices.IndexFunc(e.nodes, func(known *eventNode) bool { return known.Document == n.Document })
		switch {
		case at >= 0:
			e.nodes[at].registration = n
		case e.filter.Node == "" || e.filter.Node == n.Node:
			r := e.newNode(n)
			if e.newest && r.request.Filter.Since.Before(before) {
				r.request.Filter.Since = before
			}
			fmt.Fprintf(notes, "node %s has registered\n", command.Printable(r.log.name))
			added = append(added, r.log)
		}
	}
	return added
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
