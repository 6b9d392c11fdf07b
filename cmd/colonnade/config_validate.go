package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/files"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/problems"
)

func newValidate() *cli.Command {
	var store store
	return &cli.Command{
		Name: "validate", Usage: "Check documents without etcd, one by one and together",
		ArgsUsage: "FILE…", ArgValidator: func(ctx context.Context, cmd *cli.Command) error {
			if store.path != "" {
				return nil
			}
			return command.RequireArgs("at least one FILE, or - for standard input, or -config PATH")(ctx, cmd)
		},
		Flags: []cli.Flag{store.configFlag()},
		Description: `Each document is checked as by config apply; - is standard input. Valid documents are then
checked together: for conflicts, and for references to documents that are not in the files. A
reference to a kind of document of which the files have none is not checked. Warnings do not
change the exit status.

-config checks the files of a colonnade serve, as that does. FILEs are then checked as if config
apply had put them there.

Examples:
  colonnade config validate deploy/fleet.yaml
  colonnade config get | colonnade config validate -
  colonnade config validate -config conf`,
		Action: func(_ context.Context, cmd *cli.Command) error {
			docs, failed := loadDocuments(cmd.Reader, cmd.Args().Slice())
			if store.path != "" {
				there, bad := files.Read(store.path)
				if len(there)+len(docs)+len(failed) == 0 && bad == nil {
					bad = fmt.Errorf("%s: there are no documents in it", store.path)
				}
				docs, failed = overlaid(there, docs), append(failed, unlessReplaced(separate(bad), docs)...)
			}
			found, unchecked := validate(docs)
			for _, err := range failed {
				fmt.Fprintln(cmd.Writer, "error:", command.Printable(err.Error()))
			}
			number := map[problems.Severity]int{problems.SeverityError: len(failed)}
			for _, p := range found {
				fmt.Fprintf(cmd.Writer, "%s: %s\n", p.Severity, p.Text)
				number[p.Severity]++
			}
			if len(unchecked) > 0 {
				fmt.Fprintln(cmd.Writer, "not checked: references to "+joined(unchecked)+", of which the files have none")
			}
			summary := fmt.Sprintf("%s valid, %s, %s", count(len(docs), "document"),
				count(number[problems.SeverityError], "error"), count(number[problems.SeverityWarning], "warning"))
			if number[problems.SeverityError] > 0 {
				return errors.New(summary)
			}
			fmt.Fprintln(cmd.Writer, summary)
			return nil
		},
	}
}

// overlaid returns the documents of files with others in place of those that have the same keys.
func overlaid(there []files.Located, docs []document.Raw) []document.Raw {
	for _, l := range there {
		if !slices.ContainsFunc(docs, func(d document.Raw) bool { return d.Key == l.Key }) {
			docs = append(docs, l.Raw)
		}
	}
	return docs
}

// unlessReplaced returns the errors of files but for those about a document that others replace.
func unlessReplaced(bad []error, docs []document.Raw) []error {
	return slices.DeleteFunc(bad, func(err error) bool {
		var invalid *document.InvalidError
		return errors.As(err, &invalid) && slices.ContainsFunc(docs, func(d document.Raw) bool { return d.Key == invalid.Key })
	})
}

// validate checks valid documents together. They need not be a whole fleet: a reference to a kind of which there is none
// is taken to lead elsewhere, and that kind is returned as unchecked.
func validate(docs []document.Raw) (found []problems.Problem, unchecked []fleet.Kind) {
	all, kinds := document.NewSet(), map[fleet.Kind]bool{}
	for _, d := range docs {
		kind, _, _ := strings.Cut(d.Key, "/")
		kinds[fleet.Kind(kind)] = true
		_ = all.Put(d.Key, d.Value, 0) // it is valid
	}
	table := all.Table()
	l := &problems.List{}
	l.AddConflicts(table.Conflicts)
	l.AddPools(table)
	missing := map[fleet.Kind]bool{}
	for _, d := range table.Dangling() {
		if kinds[d.Missing] {
			l.AddDangling(d)
		} else {
			missing[d.Missing] = true
		}
	}
	return l.All(), slices.Sorted(maps.Keys(missing))
}

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
