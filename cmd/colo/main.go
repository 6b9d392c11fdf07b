// Command colo is a colo server: it grants the permits of the engines around it.
package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/node"
)

func main() { command.Main(newColo()) }

func newColo() *cli.Command {
	var shared command.NodeFlags
	var c node.ColoConfig
	return &cli.Command{
		Name: "colo", Usage: "Run a colo server, which grants the permits of the engines in its colo", Version: node.Version(),
		Flags: append(shared.Flags(":8443", "127.0.0.1:9443"),
			&cli.StringFlag{Name: "colo", Destination: &c.Colo, Usage: "`COLO` that this server is in (required)"},
			&cli.StringFlag{Name: "gossip", Value: ":7946", Destination: &c.Gossip,
				Usage: "`ADDRESS` for gossip with the other servers of the colo, UDP and TCP; empty = none"}),
		Description: `Examples:
  colo -colo ams -node ams-1 -etcd http://10.0.0.11:2379 -key-file fleet.key -data-dir /var/lib/colonnade`,
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			if c.Colo == "" {
				return errors.New("flag -colo is missing: the name of a document colos/NAME")
			}
			if c.Config, err = shared.Config(); err != nil {
				return err
			}
			var ballast command.Ballast
			defer ballast.Release()
			return node.RunColo(ctx, c, func(r node.Running) {
				ballast.Take()
				c.Logger.Info("serving", "colo", c.Colo, "node", r.Node, "address", r.Address, "admin", r.Admin)
			})
		},
	}
}
