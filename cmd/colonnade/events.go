package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

// tailEvery is how often new events are looked for.
const tailEvery = 200 * time.Millisecond

func newEvents() *cobra.Command {
	return group(&cobra.Command{
		Use: "events", Short: "Look at what happened to requests",
		Example: "  colonnade events tail -events var -f",
	}, newTail())
}

// tailOptions are the flags of events tail.
type tailOptions struct {
	events, dir string
	number      int
	follow      bool
	json        bool
	begin       bool
	want        analytics.Event // what must be alike; empty fields match everything
}

func newTail() *cobra.Command {
	var o tailOptions
	var kind, outcome string
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the newest events of all nodes that log below a directory, by time",
		Long: `Show the newest events of all nodes that log below a directory, by time: one line for each request
at an entry (with the colo that served it) and for each permit at a colo (with the endpoint). A
line has the time on this machine's clock, node, account, model, place, status (and how and why it
ended, if it did not complete), then how long it took, how much of that it queued, the time to the
first token, tokens of prompt and answer, seconds of audio, and cost. Only final events are shown,
unless -begin says otherwise; that a request has begun at an entry stands where only the entry's
next run looks for it, and is never shown.`,
		Example: `  colonnade events tail -events var
  colonnade events tail -events var -f -kind request -account acme
  colonnade events tail -events var -n 1000 -outcome refused -json`,
		Args: noMore,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.want.Kind, o.want.Outcome = analytics.Kind(kind), analytics.Outcome(outcome)
			if err := o.check(); err != nil {
				return err
			}
			dir, err := eventsBelow(o.events, o.dir)
			if err != nil {
				return err
			}
			t := &tailer{options: o, dir: dir, tail: journal.NewTail(dir, o.wants), out: cmd.OutOrStdout(), errors: cmd.ErrOrStderr()}
			return t.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.events, "events", fromEnvironment("events", ""),
		"the directory of the nodes' flag -events (COLONNADE_EVENTS)")
	flags.StringVar(&o.dir, "dir", "", "instead of -events: the directory of colonnade up's flag -dir")
	flags.IntVarP(&o.number, "number", "n", 10, "how many to begin with")
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on with those to come, until Ctrl-C")
	flags.BoolVar(&o.json, "json", false, "events as they are, a line of JSON each")
	flags.BoolVar(&o.begin, "begin", false, "also the events that say that a permit at a colo has begun")
	flags.StringVar(&o.want.Account, "account", "", "only those of this account")
	flags.StringVar(&o.want.Model, "model", "", "only those for this model")
	flags.StringVar(&o.want.Node, "node", "", "only those of this node")
	flags.StringVar(&kind, "kind", "", "only these: request (of entries) or inference (of colos)")
	flags.StringVar(&outcome, "outcome", "", "only those that ended so: "+joined(outcomes(), ", "))
	return cmd
}

func outcomes() []analytics.Outcome {
	return []analytics.Outcome{
		analytics.OutcomeCompleted, analytics.OutcomeClientGone, analytics.OutcomeEngineError, analytics.OutcomeTimeout,
		analytics.OutcomeRefused, analytics.OutcomeMoved, analytics.OutcomeDrained, analytics.OutcomeCrashed,
	}
}

func kinds() []analytics.Kind {
	return []analytics.Kind{analytics.KindRequest, analytics.KindInference}
}

func (o *tailOptions) check() error {
	switch {
	case o.want.Kind != "" && !slices.Contains(kinds(), o.want.Kind):
		return fmt.Errorf("-kind %q: must be one of %s", o.want.Kind, joined(kinds(), ", "))
	case o.want.Outcome != "" && !slices.Contains(outcomes(), o.want.Outcome):
		return fmt.Errorf("-outcome %q: must be one of %s", o.want.Outcome, joined(outcomes(), ", "))
	case o.number < 0:
		return fmt.Errorf("-n %d: must not be negative", o.number)
	}
	return nil
}

func joined[T ~string](words []T, separator string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(string(w))
	}
	return b.String()
}

func (o *tailOptions) wants(e *analytics.Event) bool {
	matches := func(want, is string) bool { return want == "" || want == is }
	return (e.Phase == analytics.PhaseEnd || o.begin) &&
		matches(o.want.Account, e.Account) && matches(o.want.Model, e.Model) && matches(o.want.Node, e.Node) &&
		matches(string(o.want.Kind), string(e.Kind)) && matches(string(o.want.Outcome), string(e.Outcome))
}

// eventsBelow finds the directory that nodes were given as -events. It also takes what colonnade up prints, and its
// -dir.
func eventsBelow(events, up string) (string, error) {
	given := filepath.Clean(events)
	switch {
	case up != "":
		given = filepath.Join(up, "nodes")
	case events == "":
		return "", errors.New("flag -events is missing: the directory that the nodes were given as -events (or COLONNADE_EVENTS), or that colonnade up prints")
	case filepath.Base(given) == "events" && !isDirectory(filepath.Join(given, "events")):
		given = filepath.Dir(given)
	}
	if !isDirectory(filepath.Join(given, "events")) {
		return "", fmt.Errorf("there are no events below %s: no node was started with it as -events, or not on this machine", cmp.Or(up, events))
	}
	return given, nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// tailer prints events.
type tailer struct {
	options tailOptions
	dir     string
	tail    *journal.Tail
	lines   eventLines
	out     io.Writer
	errors  io.Writer
	shown   int
	gone    bool // the directory
}

func (t *tailer) run(ctx context.Context) error {
	events, err := t.tail.Last(t.options.number)
	if err != nil {
		return err
	}
	if err := t.print(events); err != nil {
		return err
	}
	for t.options.follow && pause(ctx, tailEvery) {
		events, err := t.tail.Next()
		t.tellGone(err)
		if err != nil && !t.gone {
			return err
		}
		if err := t.print(events); err != nil {
			return err
		}
	}
	t.tell()
	return nil
}

// tellGone says once that the directory has gone, and once that it is back.
func (t *tailer) tellGone(err error) {
	gone := errors.Is(err, fs.ErrNotExist)
	switch {
	case gone && !t.gone:
		fmt.Fprintf(t.errors, "there are no events below %s any more: waiting for them to come back\n", t.dir)
	case t.gone && err == nil:
		fmt.Fprintf(t.errors, "there are events below %s again\n", t.dir)
	}
	t.gone = gone
}

// pause waits, and says whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (t *tailer) print(events []analytics.Event) error {
	if len(events) == 0 {
		return nil
	}
	var text bytes.Buffer
	if t.options.json {
		encoder := json.NewEncoder(&text)
		for i := range events {
			if err := encoder.Encode(&events[i]); err != nil {
				return fmt.Errorf("cannot show events: %w", err)
			}
		}
	} else {
		t.lines.fit(events)
		for i := range events {
			text.Write(t.lines.append(nil, &events[i]))
		}
	}
	if _, err := text.WriteTo(t.out); err != nil {
		return fmt.Errorf("cannot show events: %w", err)
	}
	t.shown += len(events)
	return nil
}

// tell says what is not among the lines.
func (t *tailer) tell() {
	s := t.tail.Stats()
	if t.shown == 0 {
		fmt.Fprintln(t.errors, "there is no such event below", t.dir)
	}
	if s.Bad > 0 {
		fmt.Fprintf(t.errors, "left out: %s not what was written, or broken off\n", isAre(s.Bad, "line"))
	}
	if s.Unfinished > 0 {
		fmt.Fprintf(t.errors, "left out: %s not complete: being written, or broken off when a node was killed\n",
			isAre(s.Unfinished, "line"))
	}
	if s.Missed > 0 {
		fmt.Fprintf(t.errors, "left out: %s dropped, at the disk bound, before the end was read\n",
			isAre(s.Missed, "segment"))
	}
}
