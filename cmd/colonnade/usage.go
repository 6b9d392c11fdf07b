package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/analytics/query"
	"colonnade/cmd/internal/command"
)

// usageCommand is one run of usage.
type usageCommand struct {
	eventSource
	by        string
	utc       bool
	csv, json bool

	groups []string // of by
	events *events
	usage  *query.Usage
}

func newUsage() *cli.Command {
	var c usageCommand
	f := &c.filter
	return &cli.Command{
		Name: "usage", Usage: "Show what accounts have used: requests, refusals, tokens, cost",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "by", Value: "account", Destination: &c.by, Usage: "what to sum up by, separated by commas: `GROUPS` of " + strings.Join(query.By, ", ") + "; none sums up everything"},
		}, c.timeFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "utc", Destination: &c.utc, Usage: "days and times are those of UTC, instead of the local time zone"},
			&cli.StringFlag{Name: "account", Destination: &f.Account, Usage: "only this `ACCOUNT`"},
			&cli.StringFlag{Name: "key", Destination: &f.Key, Usage: "only requests with the API key of this `ID`"},
			&cli.StringFlag{Name: "model", Destination: &f.Model, Usage: "only this `MODEL`"},
			&cli.StringFlag{Name: "node", Destination: &f.Node, Usage: "only events of this `NODE`"},
			&cli.BoolFlag{Name: "csv", Destination: &c.csv, Usage: "print CSV"},
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print JSON"},
		}, c.placeFlags()),
		Description: `Requests, and how many of them were refused, failed or left by their clients, are those of
entries. Inferences are the permits that colos granted for them, one for each attempt; tokens
and cost are theirs. An event that was kept twice counts once, at the day of its end. Nodes keep
as many events as their disk bound allows: older ones are in the sinks.

` + partialStatuses + `

Examples:
  colonnade usage -since yesterday -until today
  colonnade usage -by account,model -since 7d
  colonnade usage -by day -account acme -since 2026-11-01 -utc -csv > acme.csv`,
		Action: c.run,
	}
}

func (c *usageCommand) run(ctx context.Context, cmd *cli.Command) (err error) {
	if c.groups, err = groupsOf(c.by); err == nil && c.csv && c.json {
		err = errors.New("-csv excludes -json")
	}
	if err != nil {
		return command.WithStatus(command.StatusUnknown, err)
	}
	c.zone, c.apart = time.Local, true
	if c.utc {
		c.zone = time.UTC
	}
	if c.events, err = c.open(ctx, cmd); err != nil {
		return err
	}
	defer c.events.close()
	c.usage = query.NewUsage(c.groups, c.zone)
	if err := c.events.each(ctx, c.usage.Add, c.usage.EndNode); err != nil {
		return err
	}
	c.noteUnread()
	rows := c.usage.Rows()
	switch {
	case c.csv:
		err = c.writeCSV(cmd.Writer, rows)
	case c.json:
		err = c.writeJSON(cmd.Writer, rows)
	default:
		err = show(cmd.Writer, func(out *screen) { c.draw(out, rows) })
	}
	return errors.Join(err, c.events.partial(cmd.ErrWriter))
}

// groupsOf reads the flag -by.
func groupsOf(by string) (groups []string, err error) {
	if by == "none" {
		return nil, nil
	}
	for name := range strings.SplitSeq(by, ",") {
		if !slices.Contains(query.By, name) {
			return nil, fmt.Errorf("flag -by: %q is none of %s, or none", name, strings.Join(query.By, ", "))
		}
		if slices.Contains(groups, name) {
			return nil, fmt.Errorf("flag -by: %s is there twice", name)
		}
		groups = append(groups, name)
	}
	return groups, nil
}

// noteUnread notes servers that events of other nodes name, and that were not asked since they are not registered any more.
func (c *usageCommand) noteUnread() {
	if c.filter.Node != "" || len(c.events.logs) == 0 || c.events.logs[0].name == "" {
		return
	}
	for _, server := range c.usage.Unread() {
		_, name, _ := strings.Cut(server, "/")
		if !slices.ContainsFunc(c.events.logs, func(l *eventLog) bool { return l.node == name || l.name == name }) {
			c.events.missing = append(c.events.missing, fmt.Sprintf("server %s: it has carried requests and is not registered; its inferences are in its -data-dir", server))
			c.events.unread++
		}
	}
}

// usageJSON is what -json prints.
type usageJSON struct {
	Since   time.Time        `json:"since,omitzero"`
	Until   time.Time        `json:"until,omitzero"`
	First   time.Time        `json:"first,omitzero"` // event that counts
	Last    time.Time        `json:"last,omitzero"`
	By      []string         `json:"by"`
	Rows    []map[string]any `json:"rows"`
	Total   query.Counts     `json:"total"`
	Missing []string         `json:"missing"`   // nodes, with the reason; if there are any, the sums are too small
	Bad     int64            `json:"bad_lines"` // corrupt ones, which are left out
}

func (c *usageCommand) writeJSON(out io.Writer, rows []query.UsageRow) error {
	first, last := c.usage.Span()
	page := usageJSON{
		Since: c.filter.Since, Until: c.filter.Until, First: first.In(c.zone), Last: last.In(c.zone), By: append([]string{}, c.groups...), Rows: []map[string]any{},
		Total: query.Total(rows), Missing: append([]string{}, c.events.missing...), Bad: c.events.bad.Load(),
	}
	if first.IsZero() {
		page.First, page.Last = first, last
	}
	for i := range rows {
		fields, err := fieldsOf(&rows[i].Counts)
		if err != nil {
			return err
		}
		for at, name := range c.groups {
			fields[name] = rows[i].Group[at]
		}
		page.Rows = append(page.Rows, fields)
	}
	return writeJSON(out, page, false)
}
