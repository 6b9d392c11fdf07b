package main

import (
	"context"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

func newDiff() *cli.Command {
	var store store
	var c changing
	return &cli.Command{
		Name: "diff", Usage: "Show what config apply would change",
		ArgsUsage: "FILE…", ArgValidator: command.RequireArgs("at least one FILE or directory, or - for standard input"),
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag(),
			&cli.BoolFlag{Name: "prune", Destination: &c.prune, Usage: "also show what config apply -prune would delete"},
		},
		Description: `Compares the documents of the files with those in etcd, or with -config in other files, field by
field as they are written: defaults do not count, and neither do comments, the order of fields
or the style of YAML. + is a document or field that would be added, - one that would be removed.

The exit status is 0 if there is no difference, 1 if there is one, and 2 after an error.

Examples:
  colonnade config diff deploy/fleet.yaml
  colonnade config diff -prune fleet/
  colonnade config get | colonnade config diff -config conf -`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return comparing(store.action(func(ctx context.Context, cmd *cli.Command, d *documents) error {
				docs, err := documentsToApply(cmd)
				if err != nil {
					return err
				}
				before, err := d.list(ctx, "")
				if err != nil {
					return err
				}
				e := etcd.Edit{Put: docs}
				if c.prune {
					e.Delete = prunable(before, docs)
				}
				return c.show(cmd.Writer, before, e)
			})(ctx, cmd))
		},
	}
}

// difference is what a change does to one document.
type difference struct {
	key    string
	action string // as in a change of the history
	fields []document.Difference
	note   string // why there are no fields, if there are none
}

// differences returns what a change does to documents, without those that it leaves as they are.
func differences(before []etcd.Stored, e etcd.Edit) (all []difference) {
	for _, d := range e.Put {
		old, there := withKey(before, d.Key)
		action := etcd.ActionCreated
		if there {
			action = etcd.ActionChanged
		}
		next := newDifference(d.Key, action, old.Value, d.Value)
		if there && len(next.fields) == 0 && next.note == "" {
			continue // but for comments and style
		}
		all = append(all, next)
	}
	for _, key := range e.Delete {
		if old, there := withKey(before, key); there {
			all = append(all, newDifference(key, etcd.ActionDeleted, old.Value, nil))
		}
	}
	return all
}

func newDifference(key, action string, before, after []byte) difference {
	if action == etcd.ActionCreated {
		before = nil
	}
	d := difference{key: key, action: action}
	fields, err := document.Differences(key, before, after)
	switch {
	case err != nil:
		d.note = "the version before cannot be read"
	case action != etcd.ActionDeleted:
		d.fields = fields
	}
	return d
}

// drawDifferences writes a line for each document, and below it one for each field.
func drawDifferences(out *screen, all []difference) {
	for _, d := range all {
		out.line(out.paint(colourOf(d.action), markOf(d.action)+" "+d.key))
		if d.note != "" {
			out.line("    (", d.note, ")")
		}
		for _, f := range d.fields {
			drawField(out, f)
		}
	}
	if len(all) == 0 {
		out.line("no differences")
	}
}

func drawField(out *screen, f document.Difference) {
	before, after := document.FieldText(f.Old), document.FieldText(f.New)
	switch {
	case f.Old == nil:
		out.line("  ", out.paint(text.FgGreen, "+ "+f.Field+": "+after))
	case f.New == nil:
		out.line("  ", out.paint(text.FgRed, "- "+f.Field+": "+before))
	default:
		out.line("  ~ ", f.Field, ": ", out.paint(text.FgRed, before), " → ", out.paint(text.FgGreen, after))
	}
}

func markOf(action string) string {
	return map[string]string{etcd.ActionCreated: "+", etcd.ActionChanged: "~", etcd.ActionDeleted: "-"}[action]
}

func colourOf(action string) text.Color {
	switch action {
	case etcd.ActionCreated:
		return text.FgGreen
	case etcd.ActionDeleted:
		return text.FgRed
	}
	return text.FgYellow
}
