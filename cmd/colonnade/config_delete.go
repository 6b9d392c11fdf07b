package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/node"
)

func newDelete() *cobra.Command {
	var store *store
	var confirmed bool
	cmd := &cobra.Command{
		Use:   "delete KEY…",
		Short: "Delete documents from etcd",
		Long: `Delete documents from etcd. Each KEY is that of a document, such as models/llama or
endpoints/ams/gpu-7. When at least ten of a kind (of endpoints: of one colo's) vanish within a
minute, and more than are left, nodes take it for a mishap and go on as if they were there, until
that is confirmed: with -confirm now, or with config confirm-deletions later. What stands under a
lease is used on while it is alive: put an endpoint with concurrency: 0 first.`,
		Example: "  colonnade config delete endpoints/ams/gpu-7 models/llama-3.1-8b-instruct",
		Args:    atLeastOne("at least one KEY"),
		RunE: func(cmd *cobra.Command, keys []string) error {
			d := deletion{keys: keys, confirmed: confirmed, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr()}
			return store.use(cmd.Context(), d.run)
		},
	}
	store = storeFlag(cmd)
	cmd.Flags().BoolVar(&confirmed, "confirm", false, "confirm that it is meant, however many they are")
	return cmd
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
		if err := d.checkHeld(ctx, docs); err != nil {
			return err
		}
	}
	found, err := etcd.Delete(ctx, client, node.Prefix, d.keys)
	printDeleted(d.out, d.keys, found, err == nil)
	if err != nil {
		return err
	}
	if leased := leasedEndpoints(docs, found); len(leased) > 0 {
		text := isAre(len(leased), "endpoint") + " registered under a lease: " + shown(some(leased)) + ". Nodes go on using such an engine while its health check " +
			"succeeds, and its registrar may put it again. To take it away, put it with concurrency: 0 first."
		fmt.Fprintln(d.out, "\n"+wrapped(text, ""))
	}
	for _, key := range found {
		if strings.HasPrefix(key, string(fleet.KindServer)+"/") || strings.HasPrefix(key, string(fleet.KindEntry)+"/") {
			fmt.Fprintln(d.out, wrapped(shown(key)+" is what a node says of itself: if that node runs, it puts it again. Stop the node instead.", ""))
		}
	}
	if d.confirmed {
		revision, err := confirm(ctx, client)
		if err == nil {
			fmt.Fprintf(d.out, "confirmed what was deleted up to revision %d\n", revision)
		}
		return err
	}
	if many := tooMany(docs, found); len(many) > 0 {
		fmt.Fprint(d.out, heldBackText(many))
	}
	return nil
}

// heldBackText says that nodes do not believe that so many documents of these kinds were deleted.
func heldBackText(kinds []string) string {
	return fmt.Sprintf("\nThat is more than half of all %s. Nodes take it for a mishap and go on as if these were there\n"+
		"(config status tells which), until you put them again, or confirm that it is meant:\n\n  colonnade config confirm-deletions\n", shown(strings.Join(kinds, " and ")))
}

// checkHeld refuses if a confirmation would also confirm what somebody else has deleted.
func (d *deletion) checkHeld(ctx context.Context, docs []etcd.Stored) error {
	nodes := allNodes(docs)
	askNodes(ctx, nodes)
	for _, text := range unknownNodes(nodes) {
		fmt.Fprintln(d.notes, wrapped(shown(text), "  "))
	}
	var others []string
	for _, h := range heldBy(nodes) {
		h.keys = slices.DeleteFunc(h.keys, func(key string) bool { return slices.Contains(d.keys, key) })
		if len(h.keys) > 0 {
			others = append(others, h.text())
		}
	}
	if len(others) == 0 {
		return nil
	}
	return &refusal{"nothing was deleted: -confirm would also confirm other deletions that nodes hold back: " + strings.Join(others, "; ") +
		"; put those documents again, or confirm that they are meant with colonnade config confirm-deletions; then delete"}
}

// leasedEndpoints returns which of the endpoints that were deleted stood under a lease.
func leasedEndpoints(docs []etcd.Stored, deleted []string) []string {
	var leased []string
	for _, d := range docs {
		if d.Leased && strings.HasPrefix(d.Key, string(fleet.KindEndpoint)+"/") && slices.Contains(deleted, d.Key) {
			leased = append(leased, d.Key)
		}
	}
	return leased
}

func printDeleted(out io.Writer, keys, found []string, all bool) {
	for _, key := range keys {
		switch {
		case slices.Contains(found, key):
			fmt.Fprintln(out, "deleted", shown(key))
		case all:
			fmt.Fprintln(out, shown(key), "was not there")
		}
	}
}

// checkKeys refuses what can be the key of no document, unless it stands in the store: somebody has put it there by
// hand, and wants to be rid of it.
func checkKeys(keys []string, docs []etcd.Stored) error {
	var bad []error
	for _, key := range keys {
		if !slices.ContainsFunc(docs, func(d etcd.Stored) bool { return d.Key == key }) {
			bad = append(bad, document.CheckKey(key))
		}
	}
	return errors.Join(bad...)
}

// tooMany returns the kinds of which some node will not believe that so many operators' documents were deleted, sorted.
// docs are those that there were. What was deleted by other commands a moment ago is not counted here, but it is by
// nodes.
func tooMany(docs []etcd.Stored, deleted []string) []string {
	there, gone := map[string]int{}, map[string]int{}
	for _, d := range docs {
		switch counted := countedWith(d.Key); {
		case d.Leased:
		case slices.Contains(deleted, d.Key):
			gone[counted]++
		default:
			there[counted]++
		}
	}
	var many []string
	for _, counted := range slices.Sorted(maps.Keys(gone)) {
		if etcd.TooManyDeletions(gone[counted], there[counted]) {
			many = append(many, counted)
		}
	}
	return many
}

// countedWith returns what a document is one of for nodes. Only colo servers know endpoints, each those of its colo.
func countedWith(key string) string {
	kind, rest, _ := strings.Cut(key, "/")
	if fleet.Kind(kind) != fleet.KindEndpoint {
		return kind
	}
	colo, _, _ := strings.Cut(rest, "/")
	return kind + " of " + colo
}
