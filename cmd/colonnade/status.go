package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/admin"
	"colonnade/discovery/etcd"
)

// statusOptions are the flags of status.
type statusOptions struct {
	pool, colo string
	admin      string // addresses, separated by commas; empty: etcd knows them
	accounts   int
	json       bool
	watch      bool
}

func newStatus() *cobra.Command {
	var store *store
	var o statusOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show who holds and who waits: the pools of each colo, their endpoints, queues and accounts",
		Long: `Show who holds and who waits, at this moment. Each colo server that has registered is asked for its
page /debug/pools. First there is a line for each pool:

  SLOTS   permits held, of the slots of the endpoints that are up
  QUEUE   requests that wait, of those that may
  DRAIN   permits that come free in a second while all are held; ? until 16 requests have ended
  WAIT    how long a newcomer of band standard would wait whose account neither holds nor waits: it
          has its turn before the rest of who holds much, so this may be far less than OLDEST
  OLDEST  how long the oldest has waited until now
  GRANTS  and REFUSED, with -watch: in a second, since the last look

and what is odd: endpoints that are OUT (down, ejected, or gone while a permit is held there), or
said that they are full. Above that stands which documents are rejected. Then, for each pool, what
it has counted since the server knows it, its endpoints, its bands, and the accounts that hold and
wait most:

  HELD    permits; and of how many, where the account has a cap that is below the pool's slots: at
          its cap, the rest of it has to wait
  TOLD    how many were refused and told to come back, and are not due yet
  AHEAD   by how much more than its share the account was served, in cost for its weight: others go
          first until they have caught up with that
  OUTPUT  what its last answers have cost, where requests cost tokens
  IN      the bands in which it holds or waits, and how many wait in each if it is in several

A permit is held until the engine has finished. A request that two colos refuse counts in both.
When many pools are shown, those where nothing happens have no details.

Without -watch, the exit status is 1 if anything is wrong: a server cannot be asked, or is not ready
(one that drains by intent is no error), an active colo has no server, etcd knows no colo server,
-pool or -colo match nothing, or a document is rejected.`,
		Example: `  colonnade status
  colonnade status -watch -colo ams
  colonnade status -pool llama-3.1-8b -accounts 50
  colonnade status -admin 10.0.0.7:9080          # one server, without etcd
  colonnade status -json | jq '.servers[].pools[] | {colo, pool, queued}'`,
		Args: noMore,
		RunE: func(cmd *cobra.Command, _ []string) error {
			directory, err := o.directory(store)
			if err != nil {
				return err
			}
			defer directory.close()
			l := &look{options: o, directory: directory, asker: newAsker(askTimeout)}
			defer l.asker.client.CloseIdleConnections()
			if o.watch {
				return l.watch(cmd.Context(), cmd.OutOrStdout())
			}
			return l.once(cmd.Context(), cmd.OutOrStdout())
		},
	}
	store = storeFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.pool, "pool", "", "only this pool")
	flags.StringVar(&o.colo, "colo", "", "only this colo")
	flags.StringVar(&o.admin, "admin", "", "ask the admin listener at this HOST:PORT (or several, separated by commas), instead of those that etcd knows")
	flags.IntVar(&o.accounts, "accounts", 10, fmt.Sprintf("how many accounts of each pool, at most %d", admin.MaxAccounts))
	flags.BoolVar(&o.json, "json", false, "the same as JSON; with -watch a line each time")
	flags.BoolVar(&o.watch, "watch", false, "look again each second, until Ctrl-C")
	return cmd
}

// directory is where the servers are found that are asked.
func (o *statusOptions) directory(s *store) (*directory, error) {
	if o.accounts < 0 || o.accounts > admin.MaxAccounts {
		return nil, fmt.Errorf("-accounts %d: must be 0 to %d", o.accounts, admin.MaxAccounts)
	}
	d := &directory{etcd: s.endpoints, colo: o.colo}
	if o.admin != "" {
		d.etcd = ""
		for address := range strings.SplitSeq(o.admin, ",") {
			if err := checkAddress("-admin", address); err != nil {
				return nil, err
			}
			d.servers = append(d.servers, registeredNode{Role: "colo", Admin: address})
		}
		return d, nil
	}
	client, err := etcd.Dial(strings.Split(s.endpoints, ","))
	if err != nil {
		return nil, fmt.Errorf("flag -etcd: %w", err)
	}
	d.client = client
	return d, nil
}

// once looks once, and fails if anything is wrong.
func (l *look) once(ctx context.Context, out io.Writer) error {
	s, err := l.take(ctx)
	if err != nil {
		return err
	}
	if l.options.json {
		err = writeJSON(out, s, "  ")
	} else {
		t := terminalOf(out)
		_, err = io.WriteString(out, strings.Join(l.sheet(s, t).text(0, t.colours), "\n")+"\n")
	}
	if err == nil && len(s.Wrong) > 0 {
		err = errors.New(isAre(len(s.Wrong), "thing") + " wrong")
	}
	return err
}
