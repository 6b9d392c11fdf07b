package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/etcd"
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
		Name: "apply", Usage: "Check documents and write them to etcd, or into files",
		ArgsUsage: "FILE…", ArgValidator: command.RequireArgs("at least one FILE or directory, or - for standard input"),
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag()},
		Description: `Each FILE holds YAML documents, separated by ---, each with a key; - is standard input. Of a
directory, the files are read that colonnade serve reads. All are checked before any is written.
API keys are documents too, keys/ID: a file from before a key was revoked makes that key valid
again, which the command reports.

With -config, a document takes the place of the one that has its key; comments and other
documents stay as they are. A new one goes to the file PATH, or if that is a directory, to its
one YAML file with documents of that kind; if there is none, or several, to a file of the
kind, such as PATH/models.yaml.

Examples:
  colonnade config apply deploy/fleet.yaml
  colonnade config apply -config conf models.yaml
  printf 'key: pools/tiny\nqueue: {limit: 32}\n' | colonnade config apply -`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *documents) error {
			docs, failed := loadDocuments(cmd.Reader, cmd.Args().Slice())
			if len(failed) > 0 {
				return errors.Join(failed...)
			}
			applied, err := d.apply(ctx, docs)
			reportAPIKeys(cmd.ErrWriter, applied)
			if err != nil {
				return err
			}
			for _, a := range applied {
				verb := "applied"
				if a.unchanged {
					verb = "unchanged"
				}
				fmt.Fprintln(cmd.Writer, verb, a.key+command.Printable(a.where))
			}
			if len(docs) > etcd.MaxTransaction && d.client != nil {
				fmt.Fprintf(cmd.ErrWriter, "applied in groups of %d: nodes may have seen some groups before others\n", etcd.MaxTransaction)
			}
			return nil
		}),
	}
}

// reportAPIKeys names the API keys that did not exist before: one that was revoked must not become valid again unnoticed.
func reportAPIKeys(notes io.Writer, applied []appliedDocument) {
	var ids []string
	for _, a := range applied {
		if id, ok := strings.CutPrefix(a.key, apiKeyKey("")); ok && a.created {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(notes, "valid from now on, also if revoked before: %s: %s\n", count(len(ids), "API key"), command.Printable(strings.Join(ids, ", ")))
	}
}
