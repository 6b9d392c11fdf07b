package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
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
written. A document of an account that has no field keys leaves the API keys of the account as they
are in etcd. One that has it means it: these are the account's keys then, and no others (keys: [] is
none). It is told which keys that takes away or adds: a file from before a key was revoked brings it
back.`,
		Example: `  colonnade config apply deploy/fleet.yaml
  printf 'key: pools/tiny\nqueue: {limit: 32}\n' | colonnade config apply -`,
		Args: atLeastOne("at least one FILE, or - for standard input"),
		RunE: func(cmd *cobra.Command, files []string) error {
			docs, err := readDocuments(cmd.InOrStdin(), files)
			if err != nil {
				return err
			}
			var told etcd.Applied
			err = store.use(cmd.Context(), func(ctx context.Context, client *etcd.Client) (err error) {
				told, err = etcd.ApplyTelling(ctx, client, node.Prefix, docs)
				return err
			})
			tellKeys(cmd.ErrOrStderr(), told.Keys)
			if err != nil {
				return err
			}
			for _, d := range docs {
				verb := "applied"
				if slices.Contains(told.Same, d.Key) {
					verb = "unchanged"
				}
				fmt.Fprintln(cmd.OutOrStdout(), verb, d.Key)
			}
			if len(docs) > etcd.MaxTogether {
				fmt.Fprintf(cmd.ErrOrStderr(), "in groups of %d: nodes may have seen some of them before the others\n",
					etcd.MaxTogether)
			}
			return nil
		},
	}
	store = storeFlag(cmd)
	return cmd
}

// tellKeys says what has become of accounts' keys. A key that was revoked and is good again must not go unnoticed.
func tellKeys(notes io.Writer, changes []fleet.KeyChange) {
	added := 0
	for _, c := range changes {
		var did []string
		say := func(verb string, ids []string) {
			if len(ids) > 0 {
				did = append(did, verb+" "+count(len(ids), "key")+": "+strings.Join(ids, ", "))
			}
		}
		say("takes away", c.Gone)
		say("adds", c.Added)
		say("changes", c.Changed)
		added += len(c.Added)
		fmt.Fprintln(notes, wrapped("account "+shown(c.Account)+": the file "+shown(strings.Join(did, "; ")), "  "))
	}
	if added > 0 {
		fmt.Fprintln(notes, "what is added is good from now on, also if it was revoked before: see colonnade keys revoke")
	}
}
