package main

import (
	"github.com/spf13/cobra"

	"colonnade/fleet/document"
)

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of documents, for editors and CI",
		Long: `Print a JSON Schema (draft 2020-12) of documents with their keys, as they stand in a file. Editors
complete and check with it. It accepts every document that config validate accepts, but cannot
express all rules, such as bounds of durations: validate checks all.`,
		Example: `  colonnade config schema > colonnade.schema.json
  # then, as the first line of a file of documents, for editors with the YAML language server:
  # yaml-language-server: $schema=colonnade.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := document.Schema()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(schema)
			return err
		},
	}
}
