package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

// deletion is one run of config delete.
type deletion struct {
	documents  *change.Documents
	client     *etcd.Client // nil: the documents are in files
	out, notes io.Writer
	confirmed  bool
	force      bool

	ignoreMissing bool
}

func newDelete() *cli.Command {
	var store store
	var d deletion
	return &cli.Command{
		Name: "delete", Usage: "Delete documents from etcd, or from files",
		ArgsUsage: "KEY…", ArgValidator: command.RequireArgs("at least one KEY"),
		Flags: []cli.Flag{
			store.etcdFlag(), store.configFlag(),
			&cli.BoolFlag{Name: "confirm", Destination: &d.confirmed, Usage: "confirm the deletion in the same step, whatever it deletes"},
			&cli.BoolFlag{Name: "force", Destination: &d.force,
				Usage: "delete a record although its process does not answer; if it still runs, engines get more requests than they have slots"},
			&cli.BoolFlag{Name: "ignore-missing", Destination: &d.ignoreMissing, Usage: "delete the documents that exist, and succeed although others do not"},
		},
		Description: `Each KEY is that of a document, such as models/llama or endpoints/ams/gpu-7. If one does not
exist, nothing is deleted, and the exit status is 1 unless -ignore-missing is given.

Nodes assume a mistake and keep documents in force when at least three of a kind (of endpoints:
of one colo) vanish within a minute, and more than are left, or when the last one vanishes: the
last model, colo, account or API key, the last pool that a model names, or the last endpoint of
such a pool. The command says so before it deletes. -confirm confirms the deletion in the same
step, and config confirm-deletions later. An endpoint under a lease stays in use while its engine
is healthy; take an endpoint out of use with concurrency: 0 first.

The record of a server process, owners/COLO/NODE/BOOT, keeps other servers from the engines that
the process owns. It is deleted only if that process has ended: if it is not registered, and its
address refuses connections. If its address does not answer at all, -force deletes it.

With -config, the documents are removed from their files, and nothing is held back.

Examples:
  colonnade config delete endpoints/ams/gpu-7 models/llama-3.1-8b-instruct
  colonnade config delete -ignore-missing models/trial pools/trial
  colonnade config delete owners/ams/ams-2/5f2a9c01d3e47b68
  colonnade config delete -config conf models/llama-3.1-8b-instruct`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, docs *change.Documents) error {
			d.documents, d.client, d.out, d.notes = docs, docs.Client, cmd.Writer, cmd.ErrWriter
			if docs.Client == nil {
				return d.fromFiles(ctx, cmd.Args().Slice())
			}
			return d.run(ctx, cmd.Args().Slice())
		}),
	}
}

// fromFiles deletes documents from files, all or none.
func (d *deletion) fromFiles(ctx context.Context, keys []string) error {
	if d.confirmed || d.force {
		return errors.New("-confirm and -force are for documents in etcd: from files, documents are deleted at once")
	}
	docs, unread := d.documents.List(ctx, "")
	if err := cmp.Or(checkKeys(keys, docs), d.checkExisting(keys, docs, nil)); err != nil {
		return cmp.Or(unread, err)
	}
	_, err := d.delete(ctx, keys)
	return err
}

// checkExisting refuses keys without a document, unless that is ignored. Of those in held, nodes hold back the deletion: they can be confirmed.
func (d *deletion) checkExisting(keys []string, docs []etcd.Stored, held []string) error {
	if d.ignoreMissing {
		return nil
	}
	missing := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, there := change.WithKey(docs, key)
		return there || slices.Contains(held, key)
	})
	switch len(missing) {
	case 0:
		return nil
	case len(keys):
		return fmt.Errorf("nothing was deleted: not there: %s; colonnade config get%s lists the documents", firstOf(missing), configFlag(d.documents))
	}
	return fmt.Errorf("nothing was deleted: not there: %s; correct the keys, or delete the others with -ignore-missing", firstOf(missing))
}

// run deletes documents and records from etcd, all or none unless etcd fails.
func (d *deletion) run(ctx context.Context, keys []string) error {
	docs, revision, err := etcd.List(ctx, d.client, node.Prefix, "")
	if err != nil {
		return err
	}
	state := newDocumentState(docs, revision)
	records, keys := recordsOf(keys, &state)
	if err := checkKeys(keys, docs); err != nil {
		return err
	}
	var held heldDeletions
	if d.confirmed {
		if held, err = askHeld(ctx, d.client, d.notes); err != nil {
			return err
		}
	}
	if err := cmp.Or(d.checkExisting(keys, docs, held.keys), checkEnded(ctx, records, &state, d.force), held.checkConfirm(keys)); err != nil {
		return err
	}
	for i := range records {
		if err := deleteRecord(ctx, d.client, &records[i]); err != nil {
			return err
		}
		fmt.Fprintln(d.out, "deleted", command.Printable(records[i].Key))
	}
	if !d.confirmed {
		fmt.Fprint(d.out, heldBackNote(docs, keys))
	}
	found, err := d.delete(ctx, keys)
	if err != nil {
		return err
	}
	fmt.Fprint(d.out, registrationNote(docs, found))
	return nil
}

// delete deletes documents with some keys, and returns the keys of those that were there.
func (d *deletion) delete(ctx context.Context, keys []string) (found []string, err error) {
	deleted, revision, err := d.documents.Delete(ctx, keys, d.confirmed)
	for _, key := range keys {
		at := slices.IndexFunc(deleted, func(one change.Deleted) bool { return one.Key == key })
		if at >= 0 {
			fmt.Fprintln(d.out, "deleted", command.Printable(key+deleted[at].Where))
		} else if err == nil {
			fmt.Fprintln(d.out, command.Printable(key), "does not exist")
		}
	}
	switch {
	case err != nil || !d.confirmed:
	case revision == 0: // all were deleted before, and that is confirmed
		err = confirm(ctx, d.documents, d.out)
	default:
		fmt.Fprintf(d.out, "confirmed all deletions up to revision %d\n", revision)
	}
	for _, one := range deleted {
		found = append(found, one.Key)
	}
	return found, err
}

// registrationNote says what becomes of deleted documents that nodes and registrars own.
func registrationNote(docs []etcd.Stored, deleted []string) string {
	var note strings.Builder
	for _, d := range docs {
		key := command.Printable(d.Key)
		switch {
		case !slices.Contains(deleted, d.Key):
		case d.Leased && strings.HasPrefix(d.Key, string(fleet.KindEndpoint)+"/"):
			fmt.Fprintf(&note, "%s was registered under a lease: nodes use it while its engine is healthy, and its registrar may put it again; "+
				"to take it out of use, put it with concurrency: 0 first\n", key)
		case change.IsRegistered(d) && !change.IsRecordKey(d.Key):
			fmt.Fprintf(&note, "%s is the registration of a node, which puts it again while it runs: stop the node instead\n", key)
		}
	}
	return note.String()
}

// heldBackNote says which documents nodes keep in force when some are deleted from docs, why, and what to do; empty if there are none.
func heldBackNote(docs []etcd.Stored, deleted []string) string {
	reasons := change.HeldBack(docs, deleted)
	if reasons == "" {
		return ""
	}
	return fmt.Sprintf("These are %s. Nodes assume a mistake and keep them in force (see config status), until you put them again or confirm the "+
		"deletion:\n\n  colonnade config confirm-deletions\n\nThe flag -confirm deletes and confirms in one step.\n\n", command.Printable(reasons))
}

// checkHeld refuses a confirmation that would also confirm the deletion of others than keys.
func checkHeld(ctx context.Context, client *etcd.Client, keys []string, notes io.Writer) error {
	held, err := askHeld(ctx, client, notes)
	if err != nil {
		return err
	}
	return held.checkConfirm(keys)
}

// askHeld asks all nodes which deletions they hold back.
func askHeld(ctx context.Context, client *etcd.Client, notes io.Writer) (heldDeletions, error) {
	p := newPoller("", client, nil)
	defer p.close()
	s, err := p.poll(ctx)
	if err != nil {
		return heldDeletions{}, err
	}
	reportUnreachable(notes, s.Nodes)
	return heldBy(s.Nodes), nil
}

// checkConfirm refuses a confirmation that would also confirm the deletion of others than keys.
func (h heldDeletions) checkConfirm(keys []string) error {
	held := h
	held.keys = slices.DeleteFunc(slices.Clone(h.keys), func(key string) bool { return slices.Contains(keys, key) })
	if len(held.keys) == 0 {
		return nil
	}
	return fmt.Errorf("nothing was deleted: -confirm would also confirm %s; put those documents again, or confirm their "+
		"deletion by colonnade config confirm-deletions; then delete", held)
}

// checkKeys refuses keys that no document can have, unless they are in etcd: what was put there by other means can be
// deleted.
func checkKeys(keys []string, docs []etcd.Stored) error {
	var invalid []error
	for _, key := range keys {
		_, _, _, record := parseRecordKey(key)
		if !record && !slices.ContainsFunc(docs, func(d etcd.Stored) bool { return d.Key == key }) {
			invalid = append(invalid, document.CheckKey(key))
		}
	}
	return errors.Join(invalid...)
}
