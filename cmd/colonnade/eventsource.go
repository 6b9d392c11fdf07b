package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/analytics/journal"
	"colonnade/analytics/query"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/node"
)

// eventSource says where a command finds events: in a data directory, or at nodes, which their admin listeners or etcd name.
type eventSource struct {
	store
	dir, admin   string
	since, until string
	filter       query.Filter
	zone         *time.Location // of since and until, and of what is shown; nil = local
	apart        bool           // of a directory, each node has a log of its own
}

// placeFlags are the flags that say where events are.
func (s *eventSource) placeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "data-dir", Destination: &s.dir, Usage: "`DIRECTORY` of the nodes' flag -data-dir, instead of asking nodes"},
		adminFlag(&s.admin),
		s.etcdFlag(),
	}
}

// timeFlags are the flags that select events by time.
func (s *eventSource) timeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "since", Destination: &s.since, Usage: "only events since this `TIME`: 90m or 2d (ago), 14:30, 2026-11-22, \"2026-11-22 14:30\", today, yesterday"},
		&cli.StringFlag{Name: "until", Destination: &s.until, Usage: "only events before this `TIME`, in the same forms"},
	}
}

// filterFlags are the flags that select events by what they are about.
func (s *eventSource) filterFlags() []cli.Flag {
	f := &s.filter
	return []cli.Flag{
		&cli.StringFlag{Name: "account", Destination: &f.Account, Usage: "only events of this `ACCOUNT`"},
		&cli.StringFlag{Name: "key", Destination: &f.Key, Usage: "only events of requests with the API key of this `ID`"},
		&cli.StringFlag{Name: "model", Destination: &f.Model, Usage: "only events of this `MODEL`"},
		&cli.StringFlag{Name: "request", Destination: &f.Request, Usage: "only events of the request with this `ID`, the client's x-request-id, or the first 8 characters of its own"},
		&cli.StringFlag{Name: "node", Destination: &f.Node, Usage: "only events of this `NODE`"},
		&cli.StringFlag{Name: "kind", Destination: &f.Kind, Validator: oneOf(query.Kinds), Usage: "only events of this `KIND`: request (entries), inference, forward or engine (colos)"},
		&cli.StringFlag{Name: "outcome", Destination: &f.Outcome, Validator: oneOf(query.Outcomes), Usage: "only events with this `OUTCOME`: " + joined(query.Outcomes)},
	}
}

// oneOf returns the rule of a flag with one of some values.
func oneOf[T ~string](values []T) func(string) error {
	return func(value string) error {
		if !slices.Contains(values, T(value)) {
			return fmt.Errorf("must be one of %s", joined(values))
		}
		return nil
	}
}

// setTimes reads the flags of times.
func (s *eventSource) setTimes(now time.Time) error {
	for _, f := range []struct {
		name, text string
		to         *time.Time
	}{{"since", s.since, &s.filter.Since}, {"until", s.until, &s.filter.Until}} {
		if f.text == "" {
			continue
		}
		t, err := query.ParseTime(f.text, now)
		if err != nil {
			return fmt.Errorf("flag -%s: %w", f.name, err)
		}
		*f.to = t
	}
	if since, until := s.filter.Since, s.filter.Until; !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return fmt.Errorf("flag -until: %s is not after -since, which is %s", until.Format(time.RFC3339), since.Format(time.RFC3339))
	}
	return nil
}

// events is what a command reads.
type events struct {
	logs    []*eventLog
	filter  query.Filter
	reader  pageReader
	bad     atomic.Int64 // corrupt lines
	missing []string     // what is not there, with the reason
	unread  int          // servers that are not registered any more

	source *eventSource // which finds the nodes
	nodes  []*eventNode // that are read
	listed time.Time    // when the source was asked for nodes last
	newest bool         // the command began with the newest events, so that of a node that registers later only new ones count

	mu      sync.Mutex           // guards the field below
	readers map[string]*eventLog // the log that reads the events of a node's process
}

// eventLog is the events of a node, or of a directory with those of several. Each call of lines yields those that were not read yet.
type eventLog struct {
	node  string // that has answered
	name  string // of the node, with its address; empty: a directory
	lines func(context.Context) iter.Seq2[journal.Line, error]
	last  func(n int) error // begins with the newest n events
	lost  bool              // it could not be read to its end
	again bool              // another log has the same events: its address leads to the same node

	reported bool // that it is lost
}

// open finds the nodes, or the directory.
func (s *eventSource) open(ctx context.Context, cmd *cli.Command) (*events, error) {
	if err := s.setTimes(time.Now().In(cmp.Or(s.zone, time.Local))); err != nil {
		return nil, command.WithStatus(command.StatusUnknown, err)
	}
	e := &events{filter: s.filter, reader: newLongPageReader(eventPageTimeout), readers: map[string]*eventLog{}}
	useDir, err := s.inDirectory(cmd)
	switch {
	case err != nil:
	case useDir:
		err = e.openDir(s.dir, s.apart)
	default:
		err = e.openNodes(ctx, s)
	}
	return e, command.WithStatus(command.StatusUnknown, err)
}

// inDirectory reports whether the events are read from a directory. A flag goes before the environment, which may name several sources.
func (s *eventSource) inDirectory(cmd *cli.Command) (bool, error) {
	byFlag := func(name, value string) bool {
		variable := "COLONNADE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		return cmd.IsSet(name) && value != "" && os.Getenv(variable) != value
	}
	dir, nodes := byFlag("data-dir", s.dir), byFlag("etcd", s.endpoints) || byFlag("admin", s.admin)
	if dir && nodes {
		return false, errors.New("-data-dir excludes -admin and -etcd: events are read from a directory or from nodes")
	}
	return s.dir != "" && !nodes, nil
}

func (e *events) openDir(dir string, apart bool) error {
	if _, err := os.Stat(filepath.Join(dir, "events")); err != nil {
		return fmt.Errorf("-data-dir %s: no node keeps events there, or not on this machine: %w", dir, err)
	}
	nodes, err := []string{""}, error(nil)
	if apart {
		nodes, err = journal.Nodes(dir)
	}
	for _, name := range nodes {
		f := e.filter
		r := journal.NewReader(journal.ReaderConfig{Dir: dir, Node: name, Begins: f.Begins, Since: f.Since, Until: f.Until, Want: f.Matcher()})
		e.logs = append(e.logs, &eventLog{lines: func(context.Context) iter.Seq2[journal.Line, error] { return r.Lines() }, last: r.SkipToLast})
	}
	return err
}

// openNodes finds the nodes to ask.
func (e *events) openNodes(ctx context.Context, s *eventSource) error {
	e.source, e.listed = s, time.Now()
	nodes, err := s.nodes(ctx)
	if err != nil {
		return err
	}
	if name := e.filter.Node; name != "" && s.admin == "" {
		nodes = slices.DeleteFunc(nodes, func(n registration) bool { return n.Node != name })
		if len(nodes) == 0 {
			return fmt.Errorf("flag -node: no node %q is registered in etcd; if it has ended, its events are in its -data-dir", name)
		}
	}
	for _, n := range nodes {
		e.logs = append(e.logs, e.newNode(n).log)
	}
	return nil
}

// newNode returns a node to read.
func (e *events) newNode(n registration) *eventNode {
	r := &eventNode{reader: e.reader, registration: n, events: e}
	r.request.Filter, r.request.Last, r.request.Bytes = e.filter, -1, eventPageBytes
	r.log = &eventLog{name: cmp.Or(n.Node, n.Admin), lines: r.lines, last: func(n int) error {
		r.request.Last = n
		return nil
	}}
	e.nodes = append(e.nodes, r)
	return r
}

// nodes returns the nodes that the flag -admin names, or else those that are registered in etcd.
func (s *eventSource) nodes(ctx context.Context) ([]registration, error) {
	var nodes []registration
	if s.admin != "" {
		for address := range strings.SplitSeq(s.admin, ",") {
			if !slices.ContainsFunc(nodes, func(n registration) bool { return n.Admin == address }) {
				nodes = append(nodes, registration{Admin: address})
			}
		}
		return nodes, nil
	}
	client, err := s.dial()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	for _, kind := range []string{"entries/", "servers/"} {
		docs, revision, err := etcd.List(ctx, client, node.Prefix, kind)
		if err != nil {
			return nil, fmt.Errorf("%w; -data-dir reads events from a directory", etcdError(s.endpoints, err))
		}
		nodes = append(nodes, newDocumentState(docs, revision).nodes...)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("no node is registered in etcd at %s; -data-dir reads the events of nodes that have ended from a directory", s.endpoints)
	}
	return nodes, nil
}

func (e *events) close() { e.reader.client.CloseIdleConnections() }

// each calls do for every event of every log, one log after the other, and end after each log.
func (e *events) each(ctx context.Context, do func([]byte) error, end func()) error {
	for _, l := range e.logs {
		for line, err := range l.lines(ctx) {
			if err != nil {
				if err = e.note(ctx, l, err); err != nil {
					return err
				}
				continue
			}
			if err := do(line.JSON); err != nil {
				return err
			}
		}
		end()
	}
	return nil
}

// note counts a bad line, or notes that a node could not be read. It returns any other error.
func (e *events) note(ctx context.Context, l *eventLog, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, journal.ErrTorn), errors.Is(err, journal.ErrCorrupt):
		e.bad.Add(1)
		return nil
	case l.name == "":
		return command.WithStatus(command.StatusUnknown, err)
	}
	if !l.lost && !l.reported {
		e.missing = append(e.missing, fmt.Sprintf("node %s: %v", l.name, err))
	}
	l.lost = true
	return nil
}

// merged calls do for the events that were not read yet, ordered by time over all logs.
func (e *events) merged(ctx context.Context, do func(journal.Line) error) error {
	heads := make([]eventHead, len(e.logs))
	var asked sync.WaitGroup
	for i, l := range e.logs {
		next, stop := iter.Pull2(l.lines(ctx))
		heads[i] = eventHead{log: l, next: next}
		defer stop()
		asked.Go(heads[i].pull) // so that nodes that do not answer delay it once
	}
	asked.Wait()
	for {
		at := -1
		for i := range heads {
			h := &heads[i]
			for h.err != nil {
				if err := e.note(ctx, h.log, h.err); err != nil {
					return err
				}
				h.pull()
			}
			if h.ok && (at < 0 || h.line.Time.Before(heads[at].line.Time)) {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		if err := do(heads[at].line); err != nil {
			return err
		}
		heads[at].pull()
	}
}

// eventHead is the next event of a log.
type eventHead struct {
	log  *eventLog
	next func() (journal.Line, error, bool)
	line journal.Line
	err  error
	ok   bool // there is one
}

func (h *eventHead) pull() {
	h.line, h.err, h.ok = h.next()
	h.ok = h.ok && h.err == nil
}

// partial returns the error of a command whose result lacks something, which it writes to notes.
func (e *events) partial(notes io.Writer) error {
	if bad := e.bad.Load(); bad > 0 {
		fmt.Fprintf(notes, "left out: %s, corrupt or incomplete\n", count(int(bad), "line"))
	}
	for _, m := range e.missing {
		fmt.Fprintln(notes, "missing: "+command.Printable(m))
	}
	lost, all := 0, 0
	for _, l := range e.logs {
		if l.lost {
			lost++
		}
		if !l.again {
			all++
		}
	}
	switch {
	case lost+e.unread == 0:
		return nil
	case lost > 0 && lost == all:
		return command.WithStatus(command.StatusUnknown, errors.New("no node could be asked"))
	}
	return fmt.Errorf("the result is partial: %d of %s could not be asked", lost+e.unread, count(all+e.unread, "node"))
}

// partialStatuses is the part of the help of the commands that read events.
const partialStatuses = `Events are read from -data-dir, from the nodes at -admin, or from all nodes that are registered
in etcd. A node that cannot be reached is named on standard error. The exit status is 0 if no
node is missing, 1 if the result is partial, and 2 if nothing could be found out.`
