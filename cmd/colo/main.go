// Command colo is a colo server: it grants the permits of the engines around it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"colonnade/cmd/signals"
	"colonnade/node"
)

func main() {
	if err := run(signals.Until(), os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "colo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("colo", flag.ContinueOnError)
	flags := node.NewFlags(set, ":8443", "127.0.0.1:9443")
	name := set.String("colo", "", "the `colo` that this server is in")
	flags.NotYet("gossip", "a colo has one server")
	flags.NotYet("sink", "events stay in segments under -events")
	if err := flags.Parse(args, os.LookupEnv); err != nil {
		return err
	}
	if *name == "" {
		return errors.New("flag -colo is missing: the name of a document colos/NAME")
	}
	config, err := flags.Config()
	if err != nil {
		return err
	}
	return node.RunColo(ctx, node.ColoConfig{Config: config, Colo: *name}, func(r node.Running) {
		config.Logger.Info("colo server serves", "colo", *name, "node", r.Node, "address", r.Address, "admin", r.Admin)
	})
}
