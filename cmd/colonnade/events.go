package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"colonnade/analytics"
	"colonnade/analytics/journal"
)

// tailInterval is the time between two looks for new events.
const tailInterval = 200 * time.Millisecond

func newEvents() *cobra.Command {
	return group(&cobra.Command{
		Use: "events", Short: "Show what happened to requests",
		Example: "  colonnade events tail -data-dir var -f",
	}, newTail())
}

// eventFilter selects final events; an empty field accepts every event.
type eventFilter struct {
	kind, outcome, account, model, node string
}

func newTail() *cobra.Command {
	var f eventFilter
	var dir string
	var number int
	var follow, asJSON bool
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show the newest final events of the nodes that keep them below a directory, by time",
		Long: `Show the newest final events of the nodes that keep them below a directory, by time: one line for
each request at an entry (with the colo that served it), and for each permit at a colo (with the
endpoint). A line has the local time, node, account, model, place and status (with outcome and
reason, if the request did not complete), then the duration, how much of it the request queued, the
time to the first token, tokens of prompt and answer, seconds of audio, and cost.`,
		Example: `  colonnade events tail -data-dir var
  colonnade events tail -data-dir var -f -kind request -account acme
  colonnade events tail -data-dir var -n 1000 -outcome refused -json`,
		Args: noMore,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(f.check(), checkDataDir(dir)); err != nil {
				return err
			}
			if number < 0 {
				return fmt.Errorf("-n %d: must not be negative", number)
			}
			tail := journal.NewTail(dir, f.accepts)
			show := func(events []analytics.Event) error { return printEvents(cmd.OutOrStdout(), events, asJSON) }
			err := runTail(cmd.Context(), tail, number, follow, show)
			if n := tail.Bad(); n > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "left out: %s corrupt or incomplete\n", isAre(n, "line"))
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dir, "data-dir", fromEnvironment("data-dir", ""), "the directory of the nodes' flag -data-dir (COLONNADE_DATA_DIR)")
	flags.IntVarP(&number, "number", "n", 10, "number of events to begin with")
	flags.BoolVarP(&follow, "follow", "f", false, "continue with new events until Ctrl-C")
	flags.BoolVar(&asJSON, "json", false, "print each event as a line of JSON")
	flags.StringVar(&f.account, "account", "", "only events of this account")
	flags.StringVar(&f.model, "model", "", "only events of this model")
	flags.StringVar(&f.node, "node", "", "only events of this node")
	flags.StringVar(&f.kind, "kind", "", "only events of this kind: request (entries) or inference (colos)")
	flags.StringVar(&f.outcome, "outcome", "", "only events with this outcome: "+joined(eventOutcomes, ", "))
	return cmd
}

var (
	eventKinds    = []analytics.Kind{analytics.KindRequest, analytics.KindInference}
	eventOutcomes = []analytics.Outcome{
		analytics.OutcomeCompleted, analytics.OutcomeClientGone, analytics.OutcomeEngineError, analytics.OutcomeTimeout,
		analytics.OutcomeRefused, analytics.OutcomeMoved, analytics.OutcomeDrained, analytics.OutcomeCrashed,
	}
)

func (f eventFilter) check() error {
	switch {
	case f.kind != "" && !slices.Contains(eventKinds, analytics.Kind(f.kind)):
		return fmt.Errorf("-kind %q: must be one of %s", f.kind, joined(eventKinds, ", "))
	case f.outcome != "" && !slices.Contains(eventOutcomes, analytics.Outcome(f.outcome)):
		return fmt.Errorf("-outcome %q: must be one of %s", f.outcome, joined(eventOutcomes, ", "))
	}
	return nil
}

func (f eventFilter) accepts(e *analytics.Event) bool {
	matches := func(want, got string) bool { return want == "" || want == got }
	return matches(f.kind, string(e.Kind)) && matches(f.outcome, string(e.Outcome)) && matches(f.account, e.Account) &&
		matches(f.model, e.Model) && matches(f.node, e.Node)
}

func checkDataDir(dir string) error {
	if dir == "" {
		return errors.New("flag -data-dir is missing: the directory that the nodes were given as -data-dir (or COLONNADE_DATA_DIR), or that colonnade up prints")
	}
	if _, err := os.Stat(filepath.Join(dir, "events")); err != nil {
		return fmt.Errorf("-data-dir %s: no node keeps events there, or not on this machine: %w", dir, err)
	}
	return nil
}

// runTail shows the newest events, and with follow also new ones until ctx ends.
func runTail(ctx context.Context, tail *journal.Tail, number int, follow bool, show func([]analytics.Event) error) error {
	events, err := tail.Last(number)
	for err == nil {
		if err = show(events); err != nil || !follow || !pause(ctx, tailInterval) {
			return err
		}
		events, err = tail.Next()
	}
	return err
}

// printEvents writes all events at once, so that a reader never sees a part of a line.
func printEvents(out io.Writer, events []analytics.Event, asJSON bool) error {
	if len(events) == 0 {
		return nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for i := range events {
		if !asJSON {
			text.WriteString(eventLine(&events[i]) + "\n")
		} else if err := encoder.Encode(&events[i]); err != nil {
			return fmt.Errorf("cannot show events: %w", err)
		}
	}
	if _, err := text.WriteTo(out); err != nil {
		return fmt.Errorf("cannot show events: %w", err)
	}
	return nil
}

// eventLine returns an event as a line in columns; a value that is too long for its column shifts the others.
func eventLine(e *analytics.Event) string {
	place := e.ColoID
	if e.Endpoint != "" {
		place += "/" + e.Endpoint
	}
	column := func(s string) string { return cmp.Or(shown(s), "-") }
	line := fmt.Sprintf("%s %-10s %-10s %-16s %-16s %s", e.Time.Local().Format("2006-01-02 15:04:05.000"),
		column(e.Node), column(e.Account), column(e.Model), column(place), eventResult(e))
	return strings.Join(append([]string{line}, eventFigures(e)...), " ")
}

// eventResult returns the status, and the outcome and the reason of a request that did not complete.
func eventResult(e *analytics.Event) string {
	result := "-"
	if e.Status != 0 {
		result = fmt.Sprint(e.Status)
	}
	if e.Outcome != analytics.OutcomeCompleted {
		result += " " + shown(string(e.Outcome))
		if reason := cmp.Or(e.Reason, e.Code); reason != "" && reason != string(e.Outcome) {
			result += " (" + shown(reason) + ")"
		}
	}
	return result
}

func eventFigures(e *analytics.Event) []string {
	var out []string
	add := func(known bool, format string, values ...any) {
		if known {
			out = append(out, fmt.Sprintf(format, values...))
		}
	}
	add(e.RequestTime > 0, "%s", brief(e.RequestTime.Std()))
	add(e.QueuingTime > 0, "queued %s", brief(e.QueuingTime.Std()))
	add(e.TimeToFirstToken > 0, "ttft %s", brief(e.TimeToFirstToken.Std()))
	add(e.PromptTokens+e.CompletionTokens > 0, "tokens %d+%d", e.PromptTokens, e.CompletionTokens)
	add(e.PromptTokens+e.CompletionTokens == 0 && e.TokensEstimated > 0, "tokens ~%d", e.TokensEstimated)
	add(e.AudioSeconds > 0, "audio %.6gs", e.AudioSeconds)
	add(e.Cost > 0, "cost %.4g %s", e.Cost, shown(e.CostUnit))
	add(e.Attempts > 1, "attempts %d", e.Attempts)
	return out
}
