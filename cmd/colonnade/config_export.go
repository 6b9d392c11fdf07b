package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
	"colonnade/fleet/document"
)

func newExport() *cli.Command {
	var store store
	return &cli.Command{
		Name: "export", Usage: "Print all documents of operators, with the API keys, as a backup", ArgsUsage: "[FOLDER/]…",
		ArgValidator: func(_ context.Context, cmd *cli.Command) error {
			for _, folder := range cmd.Args().Slice() {
				if !strings.HasSuffix(folder, "/") {
					return fmt.Errorf("%s: a FOLDER ends with a slash, such as models/; config get prints single documents", command.Printable(folder))
				}
			}
			return nil
		},
		Flags: []cli.Flag{store.etcdFlag(), store.configFlag()},
		Description: `Prints one file of YAML that config apply takes, with the comments of the documents. Applied to
an empty etcd, it restores the fleet, and its API keys are valid. Left out are what nodes and
registrars register by themselves, and the confirmation of deletions. The file has no API key,
only hashes; keep it private nevertheless.

A backup that lacks something is an error: a document that is not valid is printed as a comment,
and the command fails at its end. It also fails if the file is larger than config apply takes:
export the documents FOLDER by FOLDER then.

Examples:
  colonnade config export > backup.yaml
  colonnade config export keys/ accounts/ > tenants.yaml
  colonnade config export -config conf | colonnade config apply -`,
		Action: store.action(func(ctx context.Context, cmd *cli.Command, d *change.Documents) error {
			docs, bad := getDocuments(ctx, d, cmd.Args().Slice(), false)
			if bad != nil && len(docs) == 0 {
				return bad
			}
			if len(docs) == 0 {
				return errors.New("there are no documents to export")
			}
			text, rejected := asFile(docs)
			if _, err := cmd.Writer.Write(text); err != nil {
				return err
			}
			failed := []error{bad}
			for _, err := range rejected {
				failed = append(failed, fmt.Errorf("only a comment in the file: %w", err))
			}
			if len(text) > document.MaxFile {
				failed = append(failed, fmt.Errorf("the file has %d bytes, and config apply takes at most %d at once: export FOLDER by FOLDER, such as keys/", len(text), document.MaxFile))
			}
			return errors.Join(failed...)
		}),
	}
}
