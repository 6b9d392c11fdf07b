// Command colonnade is the command line: a fleet in one process, documents, API keys, events, status.
package main

import (
	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/node"
)

func main() { command.Main(newRoot()) }

func newRoot() *cli.Command {
	return &cli.Command{
		Name: "colonnade", Usage: "Run and administer a Colonnade fleet", Version: node.Version(),
		Commands: []*cli.Command{newServe(), newUp(), newConfig(), newKeys(), newStatus(), newEvents(), newRoute(), newHealth(), newEngine()},
		Description: `Examples:
  colonnade up
  colonnade config apply deploy/fleet.yaml
  colonnade status`,
	}
}
