package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
)

// statusDifferent is the exit status of commands that compare when they find a difference; that of their errors is
// command.StatusUnknown, as of diff.
const statusDifferent = 1

func newApply() *cli.Command {
	var store store
	var c changing
	return &cli.Command{
		Name: "apply", Usage: "Check documents and write them to etcd, or into files",
		ArgsUsage: "FILE…", ArgValidator: command.RequireArgs("at least one FILE or directory, or - for standard input"),
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag(),
			&cli.BoolFlag{Name: "dry-run", Destination: &c.dryRun, Usage: "change nothing, and show what would change"},
			&cli.BoolFlag{Name: "prune", Destination: &c.prune, Usage: "also delete the documents, of the kinds that the files have, that the files do not have"},
			&cli.BoolFlag{Name: "force", Destination: &c.force, Usage: "also if it takes a model out of service, or deletes more than nodes do without a confirmation"},
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

With -config, a document takes the place of the one that has its key; comments and other
documents stay as they are. A new one goes to the file PATH, or if that is a directory, to its
one YAML file with documents of that kind; if there is none, or several, to a file of the
kind, such as PATH/models.yaml.

Examples:
  colonnade config apply deploy/fleet.yaml
  colonnade config apply -dry-run -prune fleet/
  colonnade config apply -config conf models.yaml
  printf 'key: pools/tiny\nqueue: {limit: 32}\n' | colonnade config apply -`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			return c.status(store.action(func(ctx context.Context, cmd *cli.Command, d *documents) error {
				docs, err := documentsToApply(cmd)
				if err != nil {
					return err
				}
				return c.run(ctx, cmd, d, func(_ context.Context, before []etcd.Stored) (etcd.Edit, error) {
					e := etcd.Edit{Put: docs}
					if c.prune {
						e.Delete = prunable(before, docs)
					}
					return e, nil
				})
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

// prunable returns the keys of the operators' documents that are not among others, of the kinds that those have.
func prunable(before []etcd.Stored, docs []document.Raw) (keys []string) {
	kinds, wanted := map[fleet.Kind]bool{}, map[string]bool{}
	for _, d := range docs {
		kinds[kindIn(d.Key)], wanted[d.Key] = true, true
	}
	for _, d := range before {
		if kinds[kindIn(d.Key)] && !wanted[d.Key] && !isRegistered(d) {
			keys = append(keys, d.Key)
		}
	}
	return keys
}

// changing is a command that changes documents after it has checked the fleet as it would be.
type changing struct {
	prune, force, dryRun bool
}

// errDryRun ends a dry run before anything is changed.
var errDryRun = errors.New("nothing was changed, since this is a dry run")

// run carries out a change, or shows it.
func (c *changing) run(ctx context.Context, cmd *cli.Command, d *documents, decide decision) error {
	var before []etcd.Stored
	var e etcd.Edit
	var r review
	done, err := d.edit(ctx, func(ctx context.Context, there []etcd.Stored) (etcd.Edit, error) {
		var err error
		if e, err = decide(ctx, there); err != nil {
			return e, err
		}
		before, r = there, newReview(there, e, d.client == nil)
		e.Confirm = r.held != ""
		return e, c.check(ctx, d, &r, e, cmd.ErrWriter)
	})
	r.print(cmd.ErrWriter)
	if errors.Is(err, errDryRun) {
		return c.show(cmd.Writer, before, e)
	}
	if c.dryRun && r.refusal() != nil { // the differences say what the refusal is about
		return cmp.Or(show(cmd.Writer, func(s *screen) { drawDifferences(s, differences(before, e)) }), err)
	}
	reportAPIKeys(cmd.ErrWriter, done.applied)
	if err != nil {
		return err
	}
	for _, line := range done.lines() {
		fmt.Fprintln(cmd.Writer, line)
	}
	if done.parts > 1 {
		fmt.Fprintf(cmd.ErrWriter, "applied in groups of %d: nodes may have seen some groups before others\n", etcd.MaxTransaction)
	}
	if c.force && d.client != nil && done.parts > 0 {
		fmt.Fprintf(cmd.ErrWriter, "to undo it: colonnade config rollback %d\n", done.revision)
	}
	return nil
}

// check returns an error unless the change may be carried out.
func (c *changing) check(ctx context.Context, d *documents, r *review, e etcd.Edit, notes io.Writer) error {
	if err := r.refusal(); err != nil && !c.force {
		return err
	}
	if e.Confirm {
		if err := checkHeld(ctx, d.client, e.Delete, notes); err != nil {
			return err
		}
	}
	if c.dryRun {
		return errDryRun
	}
	return nil
}

// show prints what the change would do.
func (c *changing) show(out io.Writer, before []etcd.Stored, e etcd.Edit) error {
	found := differences(before, e)
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
