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

	"github.com/urfave/cli/v3"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/cmd/internal/command"
	"colonnade/internal/ctxtime"
)

// tailInterval is the time between two looks for new events.
const tailInterval = 200 * time.Millisecond

func newEvents() *cli.Command {
	return &cli.Command{
		Name: "events", Usage: "Show what happened to requests", Commands: []*cli.Command{newTail()},
		Description: `Examples:
  colonnade events tail -data-dir var -f`,
	}
}

// eventFilter selects final events; an empty field accepts every event.
type eventFilter struct {
	kind, outcome, account, key, model, node string
}

func newTail() *cli.Command {
	var f eventFilter
	var dir string
	var number int
	var follow, asJSON bool
	return &cli.Command{
		Name: "tail", Usage: "Show the newest final events of the nodes of a data directory",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data-dir", Destination: &dir, Usage: "`DIRECTORY` of the nodes' flag -data-dir (required)"},
			&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Value: 10, Destination: &number, Validator: atLeast(0), Usage: "`NUMBER` of events to begin with"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Destination: &follow, Usage: "continue with new events until Ctrl-C"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print each event as a line of JSON"},
			&cli.StringFlag{Name: "account", Destination: &f.account, Usage: "only events of this `ACCOUNT`"},
			&cli.StringFlag{Name: "key", Destination: &f.key, Usage: "only events of requests with the API key of this `ID`"},
			&cli.StringFlag{Name: "model", Destination: &f.model, Usage: "only events of this `MODEL`"},
			&cli.StringFlag{Name: "node", Destination: &f.node, Usage: "only events of this `NODE`"},
			&cli.StringFlag{Name: "kind", Destination: &f.kind, Validator: oneOf(eventKinds), Usage: "only events of this `KIND`: request (entries) or inference (colos)"},
			&cli.StringFlag{Name: "outcome", Destination: &f.outcome, Validator: oneOf(eventOutcomes), Usage: "only events with this `OUTCOME`: " + joined(eventOutcomes)},
		},
		Description: `There is a line for each request at an entry (with the colo that served it), and for each permit
at a colo (with the endpoint): local time, node, account, model, place and status (with outcome
and reason, if the request did not complete), then the duration, how much of it the request
queued, the time to the first token, tokens of prompt and answer, seconds of audio, and cost.

Examples:
  colonnade events tail -data-dir var
  colonnade events tail -data-dir var -f -kind request -account acme
  colonnade events tail -data-dir var -n 1000 -outcome refused -json`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if err := checkDataDir(dir); err != nil {
				return err
			}
			tail := journal.NewTail(dir, f.accepts)
			show := func(events []analytics.Event) error { return printEvents(cmd.Writer, events, asJSON) }
			err := runTail(ctx, tail, number, follow, show)
			if n := tail.Bad(); n > 0 {
				fmt.Fprintf(cmd.ErrWriter, "left out: %s, corrupt or incomplete\n", count(n, "line"))
			}
			return err
		},
	}
}

var (
	eventKinds    = []analytics.Kind{analytics.KindRequest, analytics.KindInference, analytics.KindForward}
	eventOutcomes = []analytics.Outcome{
		analytics.OutcomeCompleted, analytics.OutcomeClientGone, analytics.OutcomeEngineError, analytics.OutcomeTimeout,
		analytics.OutcomeRefused, analytics.OutcomeMoved, analytics.OutcomeDrained, analytics.OutcomeCrashed,
	}
)

// oneOf returns the rule of a flag with one of some values.
func oneOf[T ~string](values []T) func(string) error {
	return func(value string) error {
		if !slices.Contains(values, T(value)) {
			return fmt.Errorf("must be one of %s", joined(values))
		}
		return nil
	}
}

func (f eventFilter) accepts(e *analytics.Event) bool {
	matches := func(want, got string) bool { return want == "" || want == got }
	return matches(f.kind, string(e.Kind)) && matches(f.outcome, string(e.Outcome)) && matches(f.account, e.Account) &&
		matches(f.key, e.Key) && matches(f.model, e.Model) && matches(f.node, e.Node)
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
		if err = show(events); err != nil || !follow || !ctxtime.Sleep(ctx, tailInterval) {
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
	column := func(s string) string { return cmp.Or(command.Printable(s), "-") }
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
		result += " " + command.Printable(string(e.Outcome))
		if reason := cmp.Or(e.Reason, e.Code); reason != "" && reason != string(e.Outcome) {
			result += " (" + command.Printable(reason) + ")"
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
	add(e.Cost > 0, "cost %.4g %s", e.Cost, command.Printable(e.CostUnit))
	add(e.Attempts > 1, "attempts %d", e.Attempts)
	return out
}
