package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/admin"
)

// statusCommand is one run of status.
type statusCommand struct {
	query poolQuery
	admin string // addresses, separated by commas; empty: the servers that are registered in etcd
	json  bool
	watch bool

	poller *poller
	state  *fleetState
	views  []poolView // of its pools
	out    io.Writer
}

func newStatus() *cli.Command {
	var store store
	var c statusCommand
	return &cli.Command{
		Name: "status", Usage: "Show who holds slots and who waits, in the pools of each colo",
		Flags: []cli.Flag{
			store.flag(),
			&cli.StringFlag{Name: "pool", Destination: &c.query.pool, Usage: "only this `POOL`"},
			&cli.StringFlag{Name: "colo", Destination: &c.query.colo, Usage: "only this `COLO`"},
			&cli.StringFlag{Name: "admin", Destination: &c.admin, Validator: checkAddresses,
				Usage: "`ADDRESSES` of admin listeners to ask instead of those that are registered in etcd, separated by commas"},
			&cli.IntFlag{Name: "accounts", Value: 10, Destination: &c.query.accounts, Validator: checkAccounts,
				Usage: fmt.Sprintf("largest `NUMBER` of accounts to show of each pool, at most %d", admin.MaxAccounts)},
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print JSON; with -watch, a line each time"},
			&cli.BoolFlag{Name: "watch", Destination: &c.watch, Usage: "show it again each second, until Ctrl-C"},
		},
		Description: `Examples:
  colonnade status
  colonnade status -watch -colo ams
  colonnade status -pool llama-3.1-8b -accounts 50
  colonnade status -admin 10.0.0.7:9443
  colonnade status -json | jq '.nodes[].pools[] | {colo, pool, queued}'`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			c.out = cmd.Writer
			if err := c.open(&store); err != nil {
				return err
			}
			defer c.poller.close()
			if c.watch {
				return c.runWatch(ctx)
			}
			return c.runOnce(ctx)
		},
	}
}

func checkAccounts(n int) error {
	if n < 0 || n > admin.MaxAccounts {
		return fmt.Errorf("must be 0 to %d", admin.MaxAccounts)
	}
	return nil
}

func checkAddresses(addresses string) error {
	for address := range strings.SplitSeq(addresses, ",") {
		if err := checkAddress(address); err != nil {
			return err
		}
	}
	return nil
}

// open sets up the poller.
func (c *statusCommand) open(s *store) error {
	c.poller = newPoller(s.endpoints, nil, &c.query)
	if c.admin != "" {
		c.poller.etcd = ""
		for address := range strings.SplitSeq(c.admin, ",") {
			c.poller.nodes = append(c.poller.nodes, registration{Role: roleColo, Admin: address})
		}
		return nil
	}
	var err error
	c.poller.client, err = s.dial()
	return err
}

// poll updates the state, which has an error if nothing matches the selection.
func (c *statusCommand) poll(ctx context.Context) error {
	s, err := c.poller.poll(ctx)
	if err != nil {
		return err
	}
	pools, silent := 0, false
	for _, n := range s.Nodes {
		pools += len(n.Pools)
		silent = silent || n.Error != ""
	}
	q := c.query
	switch {
	case len(s.Nodes) == 0 && len(s.unserved) == 0 && q.colo == "":
		s.addError("no colo server is registered")
	case len(s.Nodes) == 0 && len(s.unserved) == 0:
		s.addError(fmt.Sprintf("no server of colo %q is registered", q.colo))
	case pools == 0 && !silent && (q.pool != "" || q.colo != ""):
		s.addError(fmt.Sprintf("no server that was asked has a pool that matches -pool %q -colo %q", q.pool, q.colo))
	}
	c.state, c.views = s, poolViews(s, c.views)
	return nil
}

// runOnce polls once, and fails if anything is wrong.
func (c *statusCommand) runOnce(ctx context.Context) error {
	if err := c.poll(ctx); err != nil {
		return err
	}
	if err := c.print(); err != nil {
		return err
	}
	return c.state.err()
}

func (c *statusCommand) print() error {
	if c.json {
		return writeJSON(c.out, c.state, c.watch)
	}
	screen := screenOf(c.out)
	c.draw(screen)
	_, err := io.WriteString(c.out, screen.String())
	return err
}
