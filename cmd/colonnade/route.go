package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/entry"
	"colonnade/node"
)

func newRoute() *cli.Command {
	return &cli.Command{
		Name: "route", Usage: "Show where requests go",
		Commands: []*cli.Command{newRouteExplain()},
		Description: `Examples:
  colonnade route explain llama-3.1-8b-instruct
  colonnade route explain llama-3.1-8b-instruct -entry edge-1`,
	}
}

// routeQuery is one run of route explain.
type routeQuery struct {
	model, account string
	entry          string // node; empty: the first that is registered
	json           bool
	out, notes     io.Writer
}

func newRouteExplain() *cli.Command {
	var store store
	var q routeQuery
	var admin string
	return &cli.Command{
		Name: "explain", Usage: "Show which colos an entry tries for a model, in order, and why",
		ArgsUsage: "MODEL", ArgValidator: command.RequireArgs("the MODEL that requests name"),
		Flags: []cli.Flag{
			store.etcdFlag(),
			&cli.StringFlag{Name: "entry", Destination: &q.entry, Usage: "the entry `NODE` to ask, instead of the first that is registered in etcd"},
			&cli.StringFlag{Name: "admin", Destination: &admin, Validator: checkAddress,
				Usage: "`ADDRESS` of the admin listener of an entry, or of a colonnade serve, to ask instead of those that are registered in etcd"},
			&cli.StringFlag{Name: "account", Destination: &q.account, Usage: "fail if this `ACCOUNT` may not use the model"},
			&cli.BoolFlag{Name: "json", Destination: &q.json, Usage: "print JSON"},
		},
		Description: `The plan is the one that a request would get now: distances and free slots are those that the
entry has last seen, and a step with the pick random has another order each time. Distances are
round trips.

Examples:
  colonnade route explain llama-3.1-8b-instruct
  colonnade route explain llama-3.1-8b-instruct -entry edge-1
  colonnade route explain llama-3.1-8b-instruct -admin 127.0.0.1:9080
  colonnade route explain llama-3.1-8b-instruct -json | jq '.steps[].colos[].colo'`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Len() > 1 {
				return fmt.Errorf("one MODEL is expected, and there are %d", cmd.Args().Len())
			}
			q.model, q.out, q.notes = cmd.Args().First(), cmd.Writer, cmd.ErrWriter
			if admin != "" {
				return q.ask(ctx, registration{Admin: admin})
			}
			return store.etcdAction(func(ctx context.Context, _ *cli.Command, client *etcd.Client) error { return q.run(ctx, client) })(ctx, cmd)
		},
	}
}

// run asks an entry that is registered in etcd.
func (q *routeQuery) run(ctx context.Context, client *etcd.Client) error {
	docs, revision, err := etcd.List(ctx, client, node.Prefix, "entries/")
	if err != nil {
		return err
	}
	at, err := q.choose(newDocumentState(docs, revision).nodes)
	if err != nil {
		return err
	}
	return q.ask(ctx, at)
}

// ask asks an entry for the plan, and prints it. One that was given by address has no name yet.
func (q *routeQuery) ask(ctx context.Context, at registration) error {
	reader := newPageReader(pageTimeout)
	defer reader.client.CloseIdleConnections()
	plan, err := readPlan(ctx, reader, at.Admin, url.Values{"model": {q.model}, "account": {q.account}})
	if err == nil && at.Node != "" && plan.Node != at.Node {
		err = fmt.Errorf("node %s answers there; %s", plan.Node, addressHint(at.Admin))
	}
	if err != nil {
		return fmt.Errorf("entry %s: %w", cmp.Or(at.Node, at.Admin), err)
	}
	if q.json {
		return writeJSON(q.out, plan, false)
	}
	return show(q.out, func(out *screen) { drawPlan(out, plan) })
}

// choose returns the entry to ask.
func (q *routeQuery) choose(entries []registration) (registration, error) {
	var names []string
	for _, e := range entries {
		names = append(names, e.Node)
	}
	switch {
	case len(entries) == 0:
		return registration{}, errors.New("no entry is registered in etcd")
	case q.entry == "":
		if len(entries) > 1 {
			fmt.Fprintf(q.notes, "asking %s, the first of %d entries; -entry asks another: %s\n",
				command.Printable(names[0]), len(names), command.Printable(firstOf(names[1:])))
		}
		return entries[0], nil
	}
	i := slices.Index(names, q.entry)
	if i < 0 {
		return registration{}, fmt.Errorf("flag -entry: no entry %q is registered; registered: %s", q.entry, firstOf(names))
	}
	return entries[i], nil
}

// readPlan reads the plan of a request from the admin listener of an entry.
func readPlan(ctx context.Context, reader pageReader, admin string, query url.Values) (plan entry.PlanState, err error) {
	const page = "/debug/plan"
	status, body, err := reader.get(ctx, admin, page+"?"+query.Encode())
	if err != nil {
		return plan, err
	}
	var refused struct{ Error string }
	switch {
	case status == http.StatusNotFound && json.Unmarshal(body, &refused) == nil && refused.Error != "":
		return plan, errors.New(refused.Error)
	case status == http.StatusNotFound:
		return plan, fmt.Errorf("it has no page %s: an entry of an older version, or another program", page)
	case status != http.StatusOK:
		return plan, fmt.Errorf("its page %s has the status %d: %s", page, status, strings.TrimSpace(string(body[:min(len(body), 200)])))
	}
	if err := json.Unmarshal(body, &plan); err != nil {
		return plan, fmt.Errorf("cannot read its page %s: %w", page, err)
	}
	return plan, nil
}
