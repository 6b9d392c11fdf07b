package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"colonnade/fleet/document"
)

func newSchema() *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "Print a JSON Schema of documents, for editors and CI",
		Description: `The schema (draft 2020-12) describes documents with their keys, as they stand in a file. It
accepts every document that config validate accepts, but cannot express all rules, such as
bounds of durations. Editors with the YAML language server read it from the first line of a
file:
# yaml-language-server: $schema=colonnade.schema.json

Examples:
  colonnade config schema > colonnade.schema.json`,
		Action: func(_ context.Context, cmd *cli.Command) error {
			schema, err := document.Schema()
			if err != nil {
				return err
			}
			_, err = cmd.Writer.Write(schema)
			return err
		},
	}
}
