package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/node"
)

func newConfig() *cobra.Command {
	return group(&cobra.Command{
		Use: "config", Short: "Work with the fleet's documents",
		Example: `  colonnade config validate deploy/fleet.yaml
  colonnade config apply deploy/fleet.yaml
  colonnade config status`,
	},
		newApply(), newGet(), newValidate(), newSchema(), newConfigStatus(), newDelete(), newConfirm())
}

func newApply() *cobra.Command {
	var store *store
	cmd := &cobra.Command{
		Use:   "apply FILE…",
		Short: "Check documents and write them to etcd; - is standard input",
		Long: `Each FILE holds YAML documents, separated by ---, each with a key. All are checked before any is
written. API keys are documents of their own, keys/ID: applying accounts leaves them alone, and a
file with the key of one that was revoked since makes that key valid again.`,
		Example: `  colonnade config apply deploy/fleet.yaml
  printf 'key: pools/tiny\nqueue: {limit: 32}\n' | colonnade config apply -`,
		Args: atLeastOne("at least one FILE, or - for standard input"),
		RunE: func(cmd *cobra.Command, files []string) error {
			docs, err := readDocuments(cmd.InOrStdin(), files)
			if err != nil {
				return err
			}
			var applied etcd.Applied
			err = store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) (err error) {
				applied, err = etcd.Apply(ctx, client, node.Prefix, docs)
				return err
			})
			noteAPIKeys(cmd.ErrOrStderr(), applied.Created)
			if err != nil {
				return err
			}
			for _, d := range docs {
				verb := "applied"
				if slices.Contains(applied.Unchanged, d.Key) {
					verb = "unchanged"
				}
				fmt.Fprintln(cmd.OutOrStdout(), verb, d.Key)
			}
			if len(docs) > etcd.MaxTransaction {
				fmt.Fprintf(cmd.ErrOrStderr(), "in groups of %d: nodes may have seen some of them before the others\n",
					etcd.MaxTransaction)
			}
			return nil
		},
	}
	store = storeFlag(cmd)
	return cmd
}

// noteAPIKeys says which API keys were not there before: one that was revoked must not become valid again unnoticed.
func noteAPIKeys(notes io.Writer, created []string) {
	var ids []string
	for _, key := range created {
		if id, ok := strings.CutPrefix(key, apiKeyKey("")); ok {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		text := "valid from now on, also if revoked before: " + count(len(ids), "API key") + ": " + shown(strings.Join(ids, ", "))
		fmt.Fprintln(notes, wrapped(text, "  "))
	}
}
