package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/problems"
)

// statusDifferent is the exit status of commands that compare when they find a difference; that of their errors is
// command.StatusUnknown, as of diff.
const statusDifferent = 1

func newApply() *cli.Command {
	var store store
	c := changing{remedy: "correct the documents"}
	return &cli.Command{
		Name: "apply", Usage: "Check documents and write them to etcd, or into files",
		ArgsUsage: "FILE…", ArgValidator: command.RequireArgs("at least one FILE or directory, or - for standard input"),
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag(),
			&cli.BoolFlag{Name: "dry-run", Destination: &c.dryRun, Usage: "change nothing, and show what would change"},
			&cli.BoolFlag{Name: "prune", Destination: &c.prune, Usage: "also delete the documents, of the kinds that the files have, that the files do not have"},
			&cli.BoolFlag{Name: "force", Destination: &c.force,
				Usage: "also if it takes a model out of service, deletes more than nodes do without a confirmation, or has too few requests at -canary to be judged"},
			&cli.StringFlag{Name: "canary", Destination: &c.canary, Usage: "try it at this `NODE` first, then apply it to all, and take it back if refusals or errors rise"},
			&cli.DurationFlag{Name: "canary-for", Destination: &c.canaryFor, Value: time.Minute, Usage: "how long -canary watches the node, and then all nodes"},
		},
		Description: `Each FILE holds YAML documents, separated by ---, each with a key; - is standard input. Of a
directory, the files are read that colonnade serve reads. All are checked before any is written:
each by itself, and then the fleet as it would be. A change that takes out of service a model
that can be served now is refused without -force. If others change documents meanwhile, it is
checked again.

API keys are documents too, keys/ID: a file from before a key was revoked makes that key valid
again, which the command reports. The document "deletions" of a file is left out. -prune never
deletes what nodes and registrars have registered.

With -dry-run, the exit status is 0 if nothing would change, 1 if something would, and 2 after
an error, also if it would be refused.

With -canary, NODE alone has the change at first, whatever kind of node it is: the command
counts the requests of all nodes for a quarter of -canary-for, stages the change, and watches
NODE for -canary-for. It takes the change back, and fails, when NODE is worse than before and
than the other nodes of its kind: when more of its requests are refused or fail, an error
appears, a document is rejected, or the node ends. Else it applies the change to all, watches
them as long, and rolls it back if one gets worse. Ctrl-C takes the change back, also from all.
If the command is killed, NODE withdraws the change within 15 s; once all have it, it stays.

With -config, a document takes the place of the one that has its key; comments and other
documents stay as they are. A new one goes to the file PATH, or if that is a directory, to its
one YAML file with documents of that kind; if there is none, or several, to a file of the
kind, such as PATH/models.yaml.

Examples:
  colonnade config apply deploy/fleet.yaml
  colonnade config apply -dry-run -prune fleet/
  colonnade config apply -canary edge-1 models.yaml
  colonnade config apply -config conf models.yaml
  printf 'key: pools/tiny\nqueue: {limit: 32}\n' | colonnade config apply -`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if c.canary != "" {
				return c.runCanary(ctx, cmd, &store)
			}
			return c.status(store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
				docs, err := documentsToApply(cmd)
				if err != nil {
					return err
				}
				return c.run(ctx, cmd, d, c.decision(docs))
			})(ctx, cmd))
		},
	}
}

// documentsToApply reads the documents of the files that a command line names.
func documentsToApply(cmd *cli.Command) ([]document.Raw, error) {
	docs, failed := loadDocuments(cmd.Reader, cmd.Args().Slice())
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	isConfirmation := func(d document.Raw) bool { return d.Key == string(fleet.KindDeletions) }
	if slices.ContainsFunc(docs, isConfirmation) {
		fmt.Fprintln(cmd.ErrWriter, "left out: deletions, which would confirm deletions that nodes hold back now; see colonnade config confirm-deletions")
	}
	return slices.DeleteFunc(docs, isConfirmation), nil
}

// changing is a command that changes documents after it has checked the fleet as it would be.
type changing struct {
	prune, force, dryRun bool

	remedy string // what to do about a refused change, other than to force it

	canary    string        // node at which it is tried first; empty = none
	canaryFor time.Duration // how long each watch lasts
}

// decision returns the decision to apply documents.
func (c *changing) decision(docs []document.Raw) change.Decision {
	return func(_ context.Context, before []etcd.Stored) (etcd.Edit, error) {
		put, err := change.Unmarked(before, docs)
		e := etcd.Edit{Put: put}
		if c.prune {
			e.Delete = change.Prunable(before, docs)
		}
		return e, err
	}
}

// withForceHint says, of a change that the review has refused, what to do.
func (c *changing) withForceHint(err error) error {
	var refused *change.RefusedError
	if errors.As(err, &refused) {
		return fmt.Errorf("%s; %s, or repeat this with -force if it is intended", command.Printable(err.Error()), c.remedy)
	}
	return err
}

// run carries out a change, or shows it.
func (c *changing) run(ctx context.Context, cmd *cli.Command, d *change.Documents, decide change.Decision) error {
	o, err := d.Apply(ctx, change.Plan{Decide: decide, Force: c.force, DryRun: c.dryRun, CheckConfirm: func(ctx context.Context, deleted []string) error {
		return checkHeld(ctx, d.Client, deleted, cmd.ErrWriter)
	}})
	printAdded(cmd.ErrWriter, &o.Review)
	var refused *change.RefusedError
	errors.As(err, &refused)
	err = c.withForceHint(err)
	if c.dryRun && err == nil {
		return c.show(cmd.Writer, o.Before, o.Edit)
	}
	if c.dryRun && refused != nil { // the differences say what the refusal is about
		return cmp.Or(show(cmd.Writer, func(s *screen) { drawDifferences(s, change.Differences(o.Before, o.Edit)) }), err)
	}
	reportAPIKeys(cmd.ErrWriter, o.Done.Applied)
	if err != nil {
		return err
	}
	for _, line := range linesOf(o.Done) {
		fmt.Fprintln(cmd.Writer, line)
	}
	if o.Done.Parts > 1 {
		fmt.Fprintf(cmd.ErrWriter, "applied in groups of %d: nodes may have seen some groups before others\n", etcd.MaxTransaction)
	}
	if c.force && !d.InFiles() && o.Done.Parts > 0 {
		fmt.Fprintf(cmd.ErrWriter, "to undo it: colonnade config rollback %d\n", o.Done.Revision)
	}
	return nil
}

// printAdded writes the problems that a change adds.
func printAdded(notes io.Writer, r *change.Review) {
	for _, p := range r.Added {
		text := p.Text
		if p.Effect != "" && p.Severity == problems.SeverityError {
			text += "; " + p.Effect
		}
		fmt.Fprintf(notes, "%s: %s\n", p.Severity, command.Printable(text))
	}
}

// show prints what the change would do.
func (c *changing) show(out io.Writer, before []etcd.Stored, e etcd.Edit) error {
	found := change.Differences(before, e)
	if err := show(out, func(s *screen) { drawDifferences(s, found) }); err != nil || len(found) == 0 {
		return err
	}
	return &command.StatusError{Status: statusDifferent}
}

// status gives errors of a dry run the status of trouble.
func (c *changing) status(err error) error {
	if !c.dryRun {
		return err
	}
	return comparing(err)
}

// comparing gives an error the status of trouble, unless it only says that there is a difference.
func comparing(err error) error {
	var status *command.StatusError
	if err == nil || errors.As(err, &status) {
		return err
	}
	return command.WithStatus(command.StatusUnknown, err)
}
