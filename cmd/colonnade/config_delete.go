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

func newDelete() *cli.Command {
	var store store
	var confirmed bool
	return &cli.Command{
		Name: "delete", Usage: "Delete documents from etcd",
		ArgsUsage: "KEY…", ArgValidator: command.RequireArgs("at least one KEY"),
		Flags: []cli.Flag{store.flag(), &cli.BoolFlag{Name: "confirm", Destination: &confirmed, Usage: "confirm the deletion, however many documents it is"}},
		Description: `Each KEY is that of a document, such as models/llama or endpoints/ams/gpu-7. When at least ten
documents of a kind (of endpoints: of one colo) vanish within a minute, and more than are left,
nodes assume a mistake and keep them in force until the deletion is confirmed: by -confirm now,
or later by config confirm-deletions. An endpoint under a lease stays in use while its engine is
healthy: set concurrency: 0 first.

Examples:
  colonnade config delete endpoints/ams/gpu-7 models/llama-3.1-8b-instruct`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			d := deletion{keys: cmd.Args().Slice(), confirmed: confirmed, out: cmd.Writer, notes: cmd.ErrWriter}
			return store.use(ctx, d.run)
		},
	}
}

// deletion is one run of config delete.
type deletion struct {
	keys       []string
	confirmed  bool
	out, notes io.Writer
}

func (d *deletion) run(ctx context.Context, client *etcd.Client) error {
	docs, _, err := etcd.List(ctx, client, node.Prefix, "")
	if err != nil {
		return err
	}
	if err := checkKeys(d.keys, docs); err != nil {
		return err
	}
	if d.confirmed {
		if err := d.checkHeld(ctx, client); err != nil {
			return err
		}
	}
	found, err := etcd.Delete(ctx, client, node.Prefix, d.keys)
	printDeleted(d.out, d.keys, found, err == nil)
	if err != nil {
		return err
	}
	if leased := leasedEndpoints(docs, found); len(leased) > 0 {
		fmt.Fprintf(d.out, "\nregistered under a lease: %s. Nodes use such an endpoint while its engine is healthy, and its registrar may "+
			"put it again. To take it out of use, put it with concurrency: 0 first.\n", command.Printable(firstOf(leased)))
	}
	for _, key := range found {
		if strings.HasPrefix(key, string(fleet.KindServer)+"/") || strings.HasPrefix(key, string(fleet.KindEntry)+"/") {
			fmt.Fprintf(d.out, "%s is the registration of a node: if the node runs, it puts it again. Stop the node instead.\n", command.Printable(key))
		}
	}
	if d.confirmed {
		revision, err := confirm(ctx, client)
		if err == nil {
			fmt.Fprintf(d.out, "confirmed all deletions up to revision %d\n", revision)
		}
		return err
	}
	if many := tooMany(docs, found); len(many) > 0 {
		fmt.Fprint(d.out, heldBackNote(many))
	}
	return nil
}

// heldBackNote says that nodes hold back the deletion of so many documents of these kinds.
func heldBackNote(kinds []string) string {
	return fmt.Sprintf("\nThese are more than half of all %s. Nodes assume a mistake and keep them in force (see config status), until "+
		"you put them again or confirm the deletion:\n\n  colonnade config confirm-deletions\n", command.Printable(strings.Join(kinds, " and ")))
}

// checkHeld refuses a confirmation that would also confirm deletions by others.
func (d *deletion) checkHeld(ctx context.Context, client *etcd.Client) error {
	p := newPoller("", client, nil)
	defer p.close()
	s, err := p.poll(ctx)
	if err != nil {
		return err
	}
	for _, text := range unreachableNodes(s.Nodes) {
		fmt.Fprintln(d.notes, command.Printable(text))
	}
	held := heldBy(s.Nodes)
	held.keys = slices.DeleteFunc(held.keys, func(key string) bool { return slices.Contains(d.keys, key) })
	if len(held.keys) == 0 {
		return nil
	}
	return &refusedError{fmt.Sprintf("nothing was deleted: -confirm would also confirm %s; put those documents again, or confirm their "+
		"deletion by colonnade config confirm-deletions; then delete", held)}
}

// leasedEndpoints returns the deleted endpoints that were registered under a lease.
func leasedEndpoints(docs []etcd.Stored, deleted []string) []string {
	var leased []string
	for _, d := range docs {
		if d.Leased && strings.HasPrefix(d.Key, string(fleet.KindEndpoint)+"/") && slices.Contains(deleted, d.Key) {
			leased = append(leased, d.Key)
		}
	}
	return leased
}

// printDeleted prints what has become of each key. If not all were processed, those that are not found may exist.
func printDeleted(out io.Writer, keys, found []string, all bool) {
	for _, key := range keys {
		switch {
		case slices.Contains(found, key):
			fmt.Fprintln(out, "deleted", command.Printable(key))
		case all:
			fmt.Fprintln(out, command.Printable(key), "does not exist")
		}
	}
}

// checkKeys refuses keys that no document can have, unless they are in etcd: what was put there by other means can be
// deleted.
func checkKeys(keys []string, docs []etcd.Stored) error {
	var invalid []error
	for _, key := range keys {
		if !slices.ContainsFunc(docs, func(d etcd.Stored) bool { return d.Key == key }) {
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
		case d.Leased:
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
