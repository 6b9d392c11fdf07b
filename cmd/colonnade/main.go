// Command colonnade is the command line: a fleet in one process, documents, API keys, events, usage, status.
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
		Commands: []*cli.Command{newServe(), newUp(), newRegister(), newConfig(), newKeys(), newStatus(), newEvents(), newShip(), newUsage(), newRequest(), newCapture(), newRoute(), newHealth(), newEngine()},
		Description: `A fleet has entries, colo servers and an etcd, and is changed by documents: models, pools,
endpoints, accounts, API keys. The commands find etcd by -etcd or COLONNADE_ETCD. One place
without etcd is run by colonnade serve, and its documents are in files: -config names them.

To try things out, run colonnade up. If something is wrong, run colonnade config status.

Examples:
  colonnade up
  colonnade config apply deploy/fleet.yaml
  colonnade status`,
	}
}
