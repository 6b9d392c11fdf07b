package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/query"
	"colonnade/cmd/internal/command"
)

// followInterval is the time between two looks for new events.
const followInterval = 200 * time.Millisecond

// eventsCommand is one run of events, or of events tail.
type eventsCommand struct {
	eventSource
	number int // of the newest events to begin with; negative: all
	follow bool
	json   bool
	events *events
	out    io.Writer
}

func newEvents() *cli.Command {
	c := eventsCommand{json: true}
	return &cli.Command{
		Name: "events", Usage: "Show what happened to requests, as lines of JSON", Commands: []*cli.Command{newTail()},
		Flags: local(slices.Concat(c.placeFlags(), c.timeFlags(), []cli.Flag{
			&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Value: -1, Destination: &c.number, DefaultText: "all", Validator: newestEvents, Usage: "only this `NUMBER` of the newest events to begin with"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Destination: &c.follow, Usage: "continue with new events until Ctrl-C"},
		}, c.filterFlags())),
		Description: `Prints final events as lines of JSON, ordered by time over all nodes. docs/events.md explains
their fields. colonnade events tail prints a table for people instead.

` + partialStatuses + `

Examples:
  colonnade events -since 1h -outcome refused
  colonnade events -since yesterday -until today -account acme > acme.jsonl
  colonnade events -f -kind inference
  colonnade events -data-dir var -request 5f2a1b3c`,
		Action: c.run,
	}
}

func newTail() *cli.Command {
	c := eventsCommand{}
	return &cli.Command{
		Name: "tail", Usage: "Show the newest final events as a table",
		Flags: slices.Concat(c.placeFlags(), c.timeFlags(), []cli.Flag{
			&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Value: 10, Destination: &c.number, Validator: newestEvents, Usage: "`NUMBER` of events to begin with"},
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Destination: &c.follow, Usage: "continue with new events until Ctrl-C"},
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print each event as a line of JSON"},
		}, c.filterFlags()),
		Description: `There is a line for each request at an entry (with the colo that served it), and for each permit
at a colo (with the endpoint): local time, the beginning of the request's id, node, account,
model, place and status (with outcome and reason, if the request did not complete), then the
duration, how much of it the request queued, the time to the first token, tokens of prompt and
answer, seconds of audio, and cost. A line about an engine has what its worker reported.
colonnade request ID follows one request.

` + partialStatuses + `

Examples:
  colonnade events tail
  colonnade events tail -data-dir var -f -kind request -account acme
  colonnade events tail -n 1000 -outcome refused -json`,
		Action: c.run,
	}
}

// local keeps the flags of a command from the commands below it, which have their own.
func local(flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		switch f := f.(type) {
		case *cli.StringFlag:
			f.Local = true
		case *cli.IntFlag:
			f.Local = true
		case *cli.BoolFlag:
			f.Local = true
		}
	}
	return flags
}

// newestEvents is the rule of the flag -number. Its bound is that of a node's page.
func newestEvents(n int) error {
	if n < 0 || n > query.MaxLast {
		return fmt.Errorf("must be 0 to %d", query.MaxLast)
	}
	return nil
}

func (c *eventsCommand) run(ctx context.Context, cmd *cli.Command) (err error) {
	c.out = cmd.Writer
	if c.events, err = c.open(ctx, cmd); err != nil {
		return err
	}
	defer c.events.close()
	if err := c.print(ctx); err != nil || !c.follow {
		return cmp.Or(unlessDone(ctx, err), c.events.partial(cmd.ErrWriter))
	}
	c.events.newest = c.number >= 0
	err = c.events.followed(ctx, cmd.ErrWriter, c.printNew)
	return cmp.Or(unlessDone(ctx, err), c.events.partial(cmd.ErrWriter))
}

// print prints the events that exist.
func (c *eventsCommand) print(ctx context.Context) error {
	if c.number < 0 {
		return c.printNew(ctx)
	}
	for _, l := range c.events.logs {
		if err := l.last(c.number); err != nil {
			return command.WithStatus(command.StatusUnknown, err)
		}
	}
	var newest [][]byte // of all logs together
	err := c.events.merged(ctx, func(line journal.Line) error {
		if newest = append(newest, bytes.Clone(line.JSON)); len(newest) >= 2*c.number+1000 {
			newest = slices.Delete(newest, 0, len(newest)-c.number)
		}
		return nil
	})
	var text bytes.Buffer
	for _, event := range newest[max(0, len(newest)-c.number):] {
		if err := c.format(&text, event); err != nil {
			return err
		}
	}
	return errors.Join(writeEvents(c.out, &text), err)
}

// printNew prints the events that were not printed yet.
func (c *eventsCommand) printNew(ctx context.Context) error {
	const atOnce = 32 << 10
	var text bytes.Buffer
	err := c.events.merged(ctx, func(line journal.Line) error {
		if err := c.format(&text, line.JSON); err != nil || text.Len() < atOnce {
			return err
		}
		return writeEvents(c.out, &text)
	})
	return errors.Join(writeEvents(c.out, &text), err)
}

// format writes an event to text.
func (c *eventsCommand) format(text *bytes.Buffer, event []byte) error {
	if c.json {
		text.Write(event)
		text.WriteByte('\n')
		return nil
	}
	var e analytics.Event
	if err := json.Unmarshal(event, &e); err != nil {
		return fmt.Errorf("cannot read event %.200q: %w", event, err)
	}
	text.WriteString(eventLine(&e) + "\n")
	return nil
}

// writeEvents writes whole lines, so that a reader never sees a part of one.
func writeEvents(out io.Writer, text *bytes.Buffer) error {
	if text.Len() == 0 {
		return nil
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
	if e.Kind == analytics.KindEngine {
		return fmt.Sprintf("%s %-8s %-10s %-10s %-16s %-16s %s", e.Time.Local().Format("2006-01-02 15:04:05.000"), "-", column(e.Node), "-", "-", column(place), incident(e))
	}
	line := fmt.Sprintf("%s %-8s %-10s %-10s %-16s %-16s %s", e.Time.Local().Format("2006-01-02 15:04:05.000"),
		column(e.RequestID[:min(len(e.RequestID), query.MinPrefix)]), column(e.Node), column(e.Account), column(e.Model), column(place), eventResult(e))
	return strings.Join(append([]string{line}, eventFigures(e)...), " ")
}

// incident returns what an event about an engine says.
func incident(e *analytics.Event) string {
	text := "- " + e.Reason
	if e.Detail != "" {
		text += " (" + e.Detail + ")"
	}
	text += ", worker " + e.Worker
	if e.GPU != "" {
		text += ", " + e.GPU
	}
	return command.Printable(text)
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
