package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v3"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/analytics/query"
	"colonnade/cmd/internal/command"
)

const (
	maxRequestEvents = 20_000 // of all requests that an id selects
	maxRequestsShown = 5
)

// requestCommand is one run of request.
type requestCommand struct {
	eventSource
	json bool
}

func newRequest() *cli.Command {
	var c requestCommand
	return &cli.Command{
		Name: "request", Usage: "Follow one request: where it queued, which engine had it, how it ended",
		ArgsUsage: "ID", ArgValidator: command.RequireArgs("the ID of a request"),
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print JSON"},
		}, c.timeFlags(), c.placeFlags()),
		Description: fmt.Sprintf(`The ID is the request's own, which errors have as request_id, its first %d characters, which
colonnade events tail shows, or the client's header x-request-id. The hops come in the order in
which the request has visited them, with the times that each node has measured itself, so that
clocks may differ. A request that has not ended has no end.

`+partialStatuses+`

Examples:
  colonnade request 5f2a1b3c
  colonnade request my-request-17 -since 1h
  colonnade request 5f2a1b3c -data-dir var -json`, query.MinPrefix),
		Action: c.run,
	}
}

func (c *requestCommand) run(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Len() > 1 {
		return command.WithStatus(command.StatusUnknown, fmt.Errorf("one ID is expected, and there are %d", cmd.Args().Len()))
	}
	c.filter.Request, c.filter.Begins = cmd.Args().First(), true
	source, err := c.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer source.close()
	var found []analytics.Event
	err = source.merged(ctx, func(line journal.Line) error {
		var e analytics.Event
		if err := json.Unmarshal(line.JSON, &e); err != nil {
			return fmt.Errorf("cannot read event %.200q: %w", line.JSON, err)
		}
		if found = append(found, e); len(found) > maxRequestEvents {
			return fmt.Errorf("more than %d events have the id %q: select some with -since and -until, or use the id of one request", maxRequestEvents, c.filter.Request)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.Join(source.partial(cmd.ErrWriter), fmt.Errorf("no event has the request id %q, its beginning, or the client's id; nodes keep events only up to their disk bound", c.filter.Request))
	}
	requests := followRequests(found)
	if c.json {
		err = writeJSON(cmd.Writer, map[string]any{"requests": requests, "missing": append([]string{}, source.missing...)}, false)
	} else {
		err = show(cmd.Writer, func(out *screen) { drawRequests(out, requests) })
	}
	return errors.Join(err, source.partial(cmd.ErrWriter))
}
