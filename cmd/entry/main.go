// Command entry is an edge node: clients connect to it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"colonnade/cmd/signals"
	"colonnade/forwarding"
	"colonnade/node"
)

func main() {
	if err := run(signals.Until(), os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "entry:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("entry", flag.ContinueOnError)
	flags := node.NewFlags(set, ":8080", "127.0.0.1:9080")
	region := set.String("region", "", "where this entry is: told in its document in etcd, without effect on plans in this version")
	var tls forwarding.CertificateFiles
	set.StringVar(&tls.Cert, "tls-cert", "", "`file` with the certificate for clients, and what it needs of a chain: PEM; then -listen speaks HTTPS; read again when it changes")
	set.StringVar(&tls.Key, "tls-key", "", "`file` with the key of -tls-cert")
	perAddress := node.PerAddressFlag(set)
	open := set.Bool("open", false, "serve requests without a valid key, as the account open")
	if err := flags.Parse(args, os.LookupEnv); err != nil {
		return err
	}
	config, err := flags.Config()
	if err != nil {
		return err
	}
	if *open {
		config.Logger.Warn("this entry is open: requests without a valid key are served, as the account open; start it with -open=false to demand keys")
	}
	return node.RunEntry(ctx, node.EntryConfig{Config: config, Region: *region, Open: *open, TLS: tls, PerAddress: *perAddress}, func(r node.Running) {
		config.Logger.Info("entry serves", "node", r.Node, "address", r.Address, "admin", r.Admin)
	})
}
