package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

// deletion is one run of config delete.
type deletion struct {
	documents  *documents
	client     *etcd.Client // nil: the documents are in files
	out, notes io.Writer
	confirmed  bool
	force      bool
}

func newDelete() *cli.Command {
	var store store
	var d deletion
	return &cli.Command{
		Name: "delete", Usage: "Delete documents from etcd, or from files",
		ArgsUsage: "KEY…", ArgValidator: command.RequireArgs("at least one KEY"),
		Flags: []cli.Flag{
			store.etcdFlag(), store.configFlag(),
			&cli.BoolFlag{Name: "confirm", Destination: &d.confirmed, Usage: "confirm the deletion, however many documents it is"},
			&cli.BoolFlag{Name: "force", Destination: &d.force,
				Usage: "delete a record although its process does not answer; if it still runs, engines get more requests than they have slots"},
		},
		Description: `Each KEY is that of a document, such as models/llama or endpoints/ams/gpu-7. When at least ten
documents of a kind (of endpoints: of one colo) vanish within a minute, and more than are left,
nodes assume a mistake and keep them in force until the deletion is confirmed: by -confirm now,
or later by config confirm-deletions. An endpoint under a lease stays in use while its engine is
healthy: set concurrency: 0 first.

The record of a server process, owners/COLO/NODE/BOOT, keeps other servers from the engines that
the process owns. It is deleted only if that process has ended: if it is not registered, and its
address refuses connections. If its address does not answer at all, -force deletes it.

With -config, the documents are removed from their files, and nothing is held back.

Examples:
  colonnade config delete endpoints/ams/gpu-7 models/llama-3.1-8b-instruct
  colonnade config delete owners/ams/ams-2/5f2a9c01d3e47b68
  colonnade config delete -config conf models/llama-3.1-8b-instruct`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, docs *documents) error {
			d.documents, d.client, d.out, d.notes = docs, docs.client, cmd.Writer, cmd.ErrWriter
			if docs.client == nil {
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
	found, err := d.delete(ctx, keys)
	invalid := []error{err}
	for _, key := range keys {
		if !slices.Contains(found, key) {
			invalid = append(invalid, document.CheckKey(key))
		}
	}
	return errors.Join(invalid...)
}

// run deletes documents and records from etcd, all or none unless etcd fails.
func (d *deletion) run(ctx context.Context, keys []string) error {
	docs, revision, err := etcd.List(ctx, d.client, node.Prefix, "")
	if err != nil {
		return err
	}
	state := newDocumentState(docs, revision)
	records, keys := recordsOf(keys, &state)
	err = checkKeys(keys, docs)
	if err == nil {
		err = checkEnded(ctx, records, &state, d.force)
	}
	if err == nil && d.confirmed {
		err = checkHeld(ctx, d.client, keys, d.notes)
	}
	if err != nil {
		return err
	}
	for i := range records {
		if err := deleteRecord(ctx, d.client, &records[i]); err != nil {
			return err
		}
		fmt.Fprintln(d.out, "deleted", command.Printable(records[i].Key))
	}
	found, err := d.delete(ctx, keys)
	if err != nil {
		return err
	}
	fmt.Fprint(d.out, registrationNote(docs, found))
	if d.confirmed {
		return confirm(ctx, d.documents, d.out)
	}
	fmt.Fprint(d.out, heldBackNote(docs, found))
	return nil
}

// delete deletes documents with some keys, and returns the keys of those that were there.
func (d *deletion) delete(ctx context.Context, keys []string) (found []string, err error) {
	deleted, err := d.documents.delete(ctx, keys)
	for _, key := range keys {
		at := slices.IndexFunc(deleted, func(one deletedDocument) bool { return one.key == key })
		if at >= 0 {
			fmt.Fprintln(d.out, "deleted", command.Printable(key+deleted[at].where))
		} else if err == nil {
			fmt.Fprintln(d.out, command.Printable(key), "does not exist")
		}
	}
	return deletedKeys(deleted), err
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
		case isRegistered(d) && !isRecordKey(d.Key):
			fmt.Fprintf(&note, "%s is the registration of a node, which puts it again while it runs: stop the node instead\n", key)
		}
	}
	return note.String()
}

// heldBackNote names the kinds of which so many documents are deleted that nodes hold the deletions back.
func heldBackNote(docs []etcd.Stored, deleted []string) string {
	kinds := tooMany(docs, deleted)
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprintf("\nThese are more than half of all %s. Nodes assume a mistake and keep them in force (see config status), until "+
		"you put them again or confirm the deletion:\n\n  colonnade config confirm-deletions\n", command.Printable(strings.Join(kinds, " and ")))
}

// checkHeld refuses a confirmation that would also confirm the deletion of others than keys.
func checkHeld(ctx context.Context, client *etcd.Client, keys []string, notes io.Writer) error {
	p := newPoller("", client, nil)
	defer p.close()
	s, err := p.poll(ctx)
	if err != nil {
		return err
	}
	reportUnreachable(notes, s.Nodes)
	held := heldBy(s.Nodes)
	held.keys = slices.DeleteFunc(held.keys, func(key string) bool { return slices.Contains(keys, key) })
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

// tooMany returns the kinds of operators' documents of which so many are deleted that nodes hold the deletions back,
// sorted. docs are the documents before. Nodes also count what other commands have deleted a moment ago.
func tooMany(docs []etcd.Stored, deleted []string) []string {
	kept, gone := map[string]int{}, map[string]int{}
	for _, d := range docs {
		switch group := deletionGroup(d.Key); {
		case d.Leased || isRecordKey(d.Key):
		case slices.Contains(deleted, d.Key):
			gone[group]++
		default:
			kept[group]++
		}
	}
	var many []string
	for _, group := range slices.Sorted(maps.Keys(gone)) {
		if etcd.TooManyDeletions(gone[group], kept[group]) {
			many = append(many, group)
		}
	}
	return many
}

// deletionGroup returns the group that nodes count a document in: its kind, but for endpoints their colo, since a colo
// server only knows those of its colo.
func deletionGroup(key string) string {
	kind, rest, _ := strings.Cut(key, "/")
	if fleet.Kind(kind) != fleet.KindEndpoint {
		return kind
	}
	colo, _, _ := strings.Cut(rest, "/")
	return kind + " of " + colo
}
