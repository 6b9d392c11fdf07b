package main

import (
	"context"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v3"

	"colonnade/change"
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
			return comparing(store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
				docs, err := documentsToApply(cmd)
				if err != nil {
					return err
				}
				before, err := d.List(ctx, "")
				if err != nil {
					return err
				}
				e, err := c.decision(docs)(ctx, before)
				if err != nil {
					return err
				}
				return c.show(cmd.Writer, before, e)
			})(ctx, cmd))
		},
	}
}

// drawDifferences writes a line for each document, and below it one for each field.
func drawDifferences(out *screen, all []change.Difference) {
	for _, d := range all {
		out.line(out.paint(colourOf(d.Action), markOf(d.Action)+" "+d.Key))
		if d.Note != "" {
			out.line("    (", d.Note, ")")
		}
		for _, f := range d.Fields {
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
