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
	"colonnade/node"
)

func newDelete() *cobra.Command {
	var store *store
	var confirmed bool
	cmd := &cobra.Command{
		Use:   "delete KEY…",
		Short: "Delete documents from etcd",
		Long: `Delete documents from etcd. Each KEY is that of a document, such as models/llama or
endpoints/ams/gpu-7. When at least ten of a kind vanish within a minute, and more than are left,
nodes take it for a mishap and go on as if they were there, until that is confirmed: with -confirm
now, or with config confirm later.`,
		Example: "  colonnade config delete endpoints/ams/gpu-7 models/llama-3.1-8b-instruct",
		Args:    atLeastOne("at least one KEY"),
		RunE: func(cmd *cobra.Command, keys []string) error {
			if err := checkKeys(keys); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			return store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) error {
				docs, _, err := etcd.List(ctx, client, node.Prefix, "")
				if err != nil {
					return err
				}
				found, err := etcd.Delete(ctx, client, node.Prefix, keys)
				printDeleted(out, keys, found, err == nil)
				if err != nil {
					return err
				}
				many := tooMany(docs, found)
				switch {
				case confirmed:
					revision, err := confirm(ctx, client)
					if err == nil {
						fmt.Fprintf(out, "confirmed what was deleted up to revision %d\n", revision)
					}
					return err
				case len(many) > 0:
					fmt.Fprintf(out, "\nThat is more than half of all %s. Nodes take it for a mishap and go on as if these were there\n"+
						"(config status tells which), until you put them again, or confirm that it is meant:\n\n  colonnade config confirm\n", joined(many, " and "))
				}
				return nil
			})
		},
	}
	store = storeFlag(cmd)
	cmd.Flags().BoolVar(&confirmed, "confirm", false, "confirm that it is meant, however many they are")
	return cmd
}

func printDeleted(out io.Writer, keys, found []string, all bool) {
	for _, key := range keys {
		switch {
		case slices.Contains(found, key):
			fmt.Fprintln(out, "deleted", key)
		case all:
			fmt.Fprintln(out, key, "was not there")
		}
	}
}

func checkKeys(keys []string) error {
	var bad []error
	for _, key := range keys {
		bad = append(bad, fleet.CheckKey(key))
	}
	return errors.Join(bad...)
}

// tooMany returns the kinds of which nodes will not believe that so many operators' documents were deleted, sorted. docs are
// those that there were. What was deleted by other commands a moment ago is not counted here, but it is by nodes.
func tooMany(docs []etcd.Stored, deleted []string) []fleet.Kind {
	there, gone := map[fleet.Kind]int{}, map[fleet.Kind]int{}
	for _, d := range docs {
		name, _, _ := strings.Cut(d.Key, "/")
		switch kind := fleet.Kind(name); {
		case d.Leased:
		case slices.Contains(deleted, d.Key):
			gone[kind]++
		default:
			there[kind]++
		}
	}
	var many []fleet.Kind
	for _, kind := range slices.Sorted(maps.Keys(gone)) {
		if etcd.TooMany(gone[kind], there[kind]) {
			many = append(many, kind)
		}
	}
	return many
}
