package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
	"colonnade/node"
)

func newConfig() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "Administer the fleet's documents",
		Commands: []*cli.Command{newApply(), newGet(), newValidate(), newConfigStatus(), newDelete(), newConfirm(), newSchema()},
		Description: `Examples:
  colonnade config validate deploy/fleet.yaml
  colonnade config apply deploy/fleet.yaml
  colonnade config status`,
	}
}

func newApply() *cli.Command {
	var store store
	return &cli.Command{
		Name: "apply", Usage: "Check documents and write them to etcd",
		ArgsUsage: "FILE…", ArgValidator: command.RequireArgs("at least one FILE, or - for standard input"),
		Flags: []cli.Flag{store.flag()},
		Description: `Each FILE holds YAML documents, separated by ---, each with a key; - is standard input. All are
checked before any is written. API keys are documents too, keys/ID: a file from before a key was
revoked makes that key valid again, which the command reports.

Examples:
  colonnade config apply deploy/fleet.yaml
  printf 'key: pools/tiny\nqueue: {limit: 32}\n' | colonnade config apply -`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, client *etcd.Client) error {
			docs, failed := loadDocuments(cmd.Reader, cmd.Args().Slice())
			if len(failed) > 0 {
				return errors.Join(failed...)
			}
			applied, err := etcd.Apply(ctx, client, node.Prefix, docs)
			reportAPIKeys(cmd.ErrWriter, applied.Created)
			if err != nil {
				return err
			}
			for _, d := range docs {
				verb := "applied"
				if slices.Contains(applied.Unchanged, d.Key) {
					verb = "unchanged"
				}
				fmt.Fprintln(cmd.Writer, verb, d.Key)
			}
			if len(docs) > etcd.MaxTransaction {
				fmt.Fprintf(cmd.ErrWriter, "applied in groups of %d: nodes may have seen some groups before others\n", etcd.MaxTransaction)
			}
			return nil
		}),
	}
}

// reportAPIKeys names the API keys that did not exist before: one that was revoked must not become valid again unnoticed.
func reportAPIKeys(notes io.Writer, created []string) {
	var ids []string
	for _, key := range created {
		if id, ok := strings.CutPrefix(key, apiKeyKey("")); ok {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(notes, "valid from now on, also if revoked before: %s: %s\n", count(len(ids), "API key"), command.Printable(strings.Join(ids, ", ")))
	}
}
