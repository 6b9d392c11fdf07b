package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/cmd/internal/command"
)

func newConfig() *cli.Command {
	return &cli.Command{
		Name: "config", Usage: "Administer the fleet's documents",
		Commands: []*cli.Command{newApply(), newGet(), newValidate(), newConfigStatus(), newDelete(), newConfirm(), newSchema(),
			newDiff(), newHistory(), newRollback(), newExport()},
		Description: `A change goes through validate, diff and apply; status shows whether each node follows, and
what is wrong. history and rollback undo a change, export makes a backup.

Examples:
  colonnade config validate deploy/fleet.yaml
  colonnade config diff deploy/fleet.yaml
  colonnade config apply deploy/fleet.yaml
  colonnade config status`,
	}
}

// reportAPIKeys names the API keys that did not exist before: one that was revoked must not become valid again unnoticed.
func reportAPIKeys(notes io.Writer, applied []change.Applied) {
	var ids []string
	for _, a := range applied {
		if id, ok := strings.CutPrefix(a.Key, apiKeyKey("")); ok && a.Created {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(notes, "valid from now on, also if revoked before: %s: %s\n", count(len(ids), "API key"), command.Printable(strings.Join(ids, ", ")))
	}
}
