package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
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
history. The newest 200 are kept, of 8 MiB together; one of more than 256 KiB is kept without
values.

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
	titles := []string{">REVISION", "TIME", "BY", "DOCUMENTS", "COMMAND"}
	var rows [][]any
	for _, c := range all {
		rows = append(rows, []any{c.Revision, stamp(c.Time), by(c.Author), documentsOf(c), c.Command})
	}
	if out.width > 0 && out.widthOf(0, titles, rows) > out.width {
		drawNarrowHistory(out, rows)
		return
	}
	out.table("", titles, rows)
}

// drawNarrowHistory writes each change as a paragraph, since a command or a list of keys in a narrow column cannot be read.
func drawNarrowHistory(out *screen, rows [][]any) {
	for _, row := range rows {
		out.line(out.paint(text.Bold, fmt.Sprintf("%10d", row[0])), "  ", row[1], "  ", row[2])
		out.paragraph("            ", row[3])
		out.paragraph("            ", out.paint(text.Faint, row[4]))
	}
}

// documentsOf lists what a change did to which documents.
func documentsOf(c etcd.Change) string {
	var keys []string
	for _, d := range differencesOf(c) {
		if d.Key == string(fleet.KindDeletions) {
			keys = append(keys, confirmedText(d))
		} else {
			keys = append(keys, markOf(d.Action)+" "+d.Key)
		}
	}
	return firstOf(keys)
}

// confirmedText says what a change of the document "deletions" means.
func confirmedText(d change.Difference) string {
	for _, f := range d.Fields {
		if f.Field == "confirmed" && f.New != nil {
			return "confirmed the deletions up to revision " + document.FieldText(f.New)
		}
	}
	return "confirmed deletions" // the value was not kept
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
	all := differencesOf(c)
	confirmation := func(d change.Difference) bool { return d.Key == string(fleet.KindDeletions) }
	if i := slices.IndexFunc(all, confirmation); i >= 0 {
		out.line(confirmedText(all[i]))
		all = slices.Delete(all, i, i+1)
	}
	if len(all) > 0 {
		drawDifferences(out, all)
	}
}

// differencesOf returns what a change did to each document.
func differencesOf(c etcd.Change) (all []change.Difference) {
	for _, d := range c.Documents {
		next := change.Difference{Key: d.Key, Action: d.Action, Note: "the values were too large to be kept"}
		if !c.Omitted {
			next = change.NewDifference(d.Key, d.Action, []byte(d.Old), []byte(d.New))
		}
		if next.Note == "" && d.Action == etcd.ActionChanged && len(next.Fields) == 0 {
			next.Note = "unchanged in meaning: only comments or style differ"
		}
		all = append(all, next)
	}
	return all
}
