package main

import (
	"context"
	"fmt"

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
		newApply(), newGet(), newValidate(), newStatus(), newDelete(), newConfirm())
}

func newApply() *cobra.Command {
	var store *store
	cmd := &cobra.Command{
		Use:   "apply FILE…",
		Short: "Check documents and write them to etcd; - is standard input",
		Long:  "Each FILE holds YAML documents, separated by ---, each with a key. All are checked before any is\nwritten.",
		Example: `  colonnade config apply deploy/fleet.yaml
  printf 'key: pools/tiny\nqueue: {limit: 32}\n' | colonnade config apply -`,
		Args: atLeastOne("at least one FILE, or - for standard input"),
		RunE: func(cmd *cobra.Command, files []string) error {
			docs, err := readDocuments(cmd.InOrStdin(), files)
			if err != nil {
				return err
			}
			if err := store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) error {
				return etcd.Apply(ctx, client, node.Prefix, docs)
			}); err != nil {
				return err
			}
			for _, d := range docs {
				fmt.Fprintln(cmd.OutOrStdout(), "applied", d.Key)
			}
			return nil
		},
	}
	store = storeFlag(cmd)
	return cmd
}
