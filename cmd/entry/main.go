// Command entry is an edge node: clients connect to it.
package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/node"
)

func main() { command.Main(newEntry()) }

func newEntry() *cli.Command {
	var shared command.NodeFlags
	var c node.EntryConfig
	var position string
	return &cli.Command{
		Name: "entry", Usage: "Run an edge node, which clients connect to", Version: node.Version(),
		Flags: append(shared.Flags(":8080", "127.0.0.1:9080"),
			&cli.StringFlag{Name: "region", Destination: &c.Region, Usage: "`REGION` of this entry, as registered in etcd"},
			&cli.StringFlag{Name: "position", Destination: &position,
				Usage: "`LAT,LON` of this entry in degrees, from which it estimates how far colos are until it has measured that"},
			&cli.StringFlag{Name: "tls-cert", Destination: &c.TLS.Cert,
				Usage: "PEM `FILE` with the certificate for clients and its chain; -listen then speaks HTTPS; reloaded when it changes"},
			&cli.StringFlag{Name: "tls-key", Destination: &c.TLS.Key, Usage: "PEM `FILE` with the key of -tls-cert"},
			&cli.StringFlag{Name: "redis", Destination: &c.Redis,
				Usage: "`URL` of the Redis through which all entries share limits: redis://HOST:PORT, or rediss:// for TLS (default: none, each entry enforces its share)"},
			command.MaxConnsPerIPFlag(&c.MaxConnsPerIP),
			&cli.BoolFlag{Name: "open", Destination: &c.Open, Usage: "serve requests without a valid key, as the account open"},
		),
		Description: `Examples:
  entry -node edge-1 -etcd http://10.0.0.11:2379 -key-file fleet.key -data-dir /var/lib/colonnade`,
		Action: func(ctx context.Context, _ *cli.Command) (err error) {
			if c.Config, err = shared.Config(); err != nil {
				return err
			}
			if c.Position, err = node.ParsePosition(position); err != nil {
				return err
			}
			if c.Open {
				c.Logger.Warn("this entry is open: requests without a valid key are served as the account open; set -open=false to require keys")
			}
			var ballast command.Ballast
			defer ballast.Release()
			return node.RunEntry(ctx, c, func(r node.Running) {
				ballast.Take()
				c.Logger.Info("serving", "node", r.Node, "address", r.Address, "admin", r.Admin)
			})
		},
	}
}
