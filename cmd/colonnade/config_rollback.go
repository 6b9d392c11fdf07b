package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

func newRollback() *cli.Command {
	var store store
	c := changing{remedy: "roll back to a newer REVISION (config history lists the changes, config history REVISION shows one), or apply the documents that should differ"}
	return &cli.Command{
		Name: "rollback", Usage: "Put documents back as they were at a revision", ArgsUsage: "REVISION",
		ArgValidator: func(_ context.Context, cmd *cli.Command) error {
			revision, err := revisionArg(cmd)
			if err == nil && revision == 0 {
				err = errors.New("config rollback needs a REVISION; colonnade config history lists them: to undo a change, name the revision of the one before")
			}
			return err
		},
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag(),
			&cli.BoolFlag{Name: "dry-run", Destination: &c.dryRun, Usage: "change nothing, and show what would change"},
			&cli.BoolFlag{Name: "force", Destination: &c.force,
				Usage: "also if it takes a model out of service, deletes more than nodes do without a confirmation, or must leave documents as they are that other programs have changed"},
		},
		Description: `Undoes all changes in the history that are newer than REVISION: documents get the values that
they had then, and those that did not exist are deleted. API keys that were revoked since are
valid again, which the command reports. The same checks are made as by config apply, and the
rollback is a change of its own, which can be undone.

The history has what colonnade changed, and reaches back 200 changes, or 8 MiB of them. Documents
that another program has changed since, such as etcdctl, are an error.

With -dry-run, the exit status is 0 if nothing would change, 1 if something would, and 2 after
an error, also if it would be refused.

Examples:
  colonnade config history
  colonnade config rollback -dry-run 5127
  colonnade config rollback 5127`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			revision, err := revisionArg(cmd)
			if err != nil {
				return err
			}
			return c.status(store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
				if d.Client == nil {
					return errNoHistory
				}
				return c.run(ctx, cmd, d, func(ctx context.Context, before []etcd.Stored) (etcd.Edit, error) {
					history, err := etcd.History(ctx, d.Client, node.Prefix)
					if err != nil {
						return etcd.Edit{}, err
					}
					return undo(history, before, revision, c.force)
				})
			})(ctx, cmd))
		},
	}
}

// undo returns the change that puts documents back as they were at a revision. history has the newest change first.
func undo(history []etcd.Change, before []etcd.Stored, revision int64, force bool) (etcd.Edit, error) {
	if len(history) == 0 {
		return etcd.Edit{}, errors.New("there is no history: colonnade has changed nothing in this etcd since it keeps one; restore a backup instead")
	}
	newest, oldest := history[0], history[len(history)-1]
	switch {
	case revision < oldest.Revision-1:
		return etcd.Edit{}, fmt.Errorf("the history does not reach back to revision %d: it begins with the change of revision %d (%s, %s); restore a backup instead",
			revision, oldest.Revision, stamp(oldest.Time), by(oldest.Author))
	case revision >= newest.Revision:
		return etcd.Edit{}, fmt.Errorf("nothing to undo: the newest change is of revision %d; to undo it, name the revision of the one before, which colonnade "+
			"config history shows, or %d", newest.Revision, newest.Revision-1)
	}
	then := map[string]etcd.ChangedDocument{}
	for _, c := range history { // the oldest change that is undone has what was there
		for _, d := range c.Documents {
			if c.Revision <= revision || d.Key == string(fleet.KindDeletions) {
				continue
			}
			if c.Omitted {
				return etcd.Edit{}, fmt.Errorf("the change of revision %d was too large for its values to be kept, so it cannot be undone; restore a backup instead", c.Revision)
			}
			then[d.Key] = d
		}
	}
	if lost := foreign(then, before, revision); len(lost) > 0 && !force {
		return etcd.Edit{}, fmt.Errorf("another program than colonnade has changed, since revision %d: %s; the history does not have what was there before: put these "+
			"documents as they should be, or repeat this with -force, which leaves them as they are", revision, firstOf(lost))
	}
	return restored(then, before, revision), nil
}

// foreign returns the documents that other programs have changed since a revision.
func foreign(then map[string]etcd.ChangedDocument, before []etcd.Stored, revision int64) (lost []string) {
	for _, key := range slices.Sorted(maps.Keys(then)) {
		if then[key].OldRevision > revision {
			lost = append(lost, fmt.Sprintf("%s (revision %d)", key, then[key].OldRevision))
		}
	}
	for _, d := range before {
		_, known := then[d.Key]
		if !known && d.Revision > revision && !change.IsRegistered(d) && d.Key != string(fleet.KindDeletions) {
			lost = append(lost, fmt.Sprintf("%s (revision %d)", d.Key, d.Revision))
		}
	}
	return lost
}

// restored returns the change to what was there, but for documents that are registered by now, and those of which that is not known.
func restored(then map[string]etcd.ChangedDocument, before []etcd.Stored, revision int64) (e etcd.Edit) {
	for _, key := range slices.Sorted(maps.Keys(then)) {
		old := then[key]
		current, there := change.WithKey(before, key)
		switch {
		case old.OldRevision > revision, there && change.IsRegistered(current):
		case old.OldRevision > 0:
			e.Put = append(e.Put, document.Raw{Key: key, Value: []byte(old.Old)})
		case there:
			e.Delete = append(e.Delete, key)
		}
	}
	slices.SortFunc(e.Put, func(a, b document.Raw) int { return strings.Compare(a.Key, b.Key) })
	return e
}
