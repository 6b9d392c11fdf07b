package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/node"
)

// errNoHistory says where the history of files is.
var errNoHistory = errors.New("files have no history here: keep them in git, whose log and revert do the same; colonnade keeps the history of documents in etcd")

func newHistory() *cli.Command {
	var store store
	var asJSON bool
	most := 20
	return &cli.Command{
		Name: "history", Usage: "Show who changed which documents, and when", ArgsUsage: "[REVISION]",
		ArgValidator: func(_ context.Context, cmd *cli.Command) error {
			_, err := revisionArg(cmd)
			return err
		},
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag(),
			&cli.IntFlag{Name: "n", Value: most, Destination: &most, Usage: "show at most this `NUMBER` of changes"},
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "print JSON, with the documents before and after each change"},
		},
		Description: `Lists the changes by colonnade in etcd, the newest first: + created, ~ changed, - deleted. With
REVISION, shows what that change did, field by field. The name is that of the user who ran the
command, or the one in COLONNADE_USER. Changes by other programs, such as etcdctl, are not in the
history. The newest 200 are kept; one of more than 256 KiB is kept without values.

Examples:
  colonnade config history
  colonnade config history 5127
  colonnade config history -json | jq -r '.[] | [.revision, .user, .command] | @tsv'`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			if d.Client == nil {
				return errNoHistory
			}
			all, err := etcd.History(ctx, d.Client, node.Prefix)
			if err != nil {
				return err
			}
			revision, _ := revisionArg(cmd)
			if revision > 0 {
				all = slices.DeleteFunc(all, func(c etcd.Change) bool { return c.Revision != revision })
				if len(all) == 0 {
					return fmt.Errorf("no change of revision %d is in the history; colonnade config history lists those that are", revision)
				}
			}
			all = all[:min(len(all), max(most, 0))]
			if asJSON {
				return writeJSON(cmd.Writer, append([]etcd.Change{}, all...), false)
			}
			return show(cmd.Writer, func(out *screen) {
				if revision > 0 {
					drawChange(out, all[0])
				} else {
					drawHistory(out, all)
				}
			})
		}),
	}
}

// revisionArg returns the revision that a command line names; 0 if it names none.
func revisionArg(cmd *cli.Command) (int64, error) {
	if cmd.Args().Len() == 0 {
		return 0, nil
	}
	revision, err := strconv.ParseInt(cmd.Args().First(), 10, 64)
	if err != nil || revision < 1 || cmd.Args().Len() > 1 {
		return 0, fmt.Errorf("%s takes one REVISION, a number such as 5127 that colonnade config history shows; see %s -h", cmd.FullName(), cmd.FullName())
	}
	return revision, nil
}

func drawHistory(out *screen, all []etcd.Change) {
	if len(all) == 0 {
		out.line("no changes: colonnade has changed nothing in this etcd since it keeps a history")
		return
	}
	var rows [][]any
	for _, c := range all {
		var keys []string
		for _, d := range differencesOf(c) {
			keys = append(keys, markOf(d.Action)+" "+d.Key)
		}
		rows = append(rows, []any{c.Revision, stamp(c.Time), by(c.Author), firstOf(keys), c.Command})
	}
	out.table("", []string{">REVISION", "TIME", "~BY", "~DOCUMENTS", "~COMMAND"}, rows)
}

// by returns a user at a host.
func by(a etcd.Author) string {
	a.Command = ""
	return a.String()
}

// drawChange writes what one change did.
func drawChange(out *screen, c etcd.Change) {
	out.line("revision ", c.Revision, ", ", stamp(c.Time), ", ", by(c.Author))
	out.paragraph("  ", c.Command)
	out.line()
	drawDifferences(out, differencesOf(c))
}

// differencesOf returns what a change did to each document.
func differencesOf(c etcd.Change) (all []change.Difference) {
	for _, d := range c.Documents {
		next := change.Difference{Key: d.Key, Action: d.Action, Note: "the values were too large to be kept"}
		if !c.Omitted {
			next = change.NewDifference(d.Key, d.Action, []byte(d.Old), []byte(d.New))
		}
		all = append(all, next)
	}
	return all
}
