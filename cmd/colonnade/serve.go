package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/discovery/engines"
	"colonnade/fleet/document"
	"colonnade/node"
	"colonnade/onebox"
)

// The default addresses for requests, of a process that requires keys, of an open one, and of one whose clients come by a name.
const (
	publicListen = ":8080"
	openListen   = "127.0.0.1:8080"
	httpsListen  = ":443"
)

func newServe() *cli.Command {
	var shared command.NodeFlags
	var c node.ServeConfig
	var printConfig bool
	return &cli.Command{
		Name: "serve", Usage: "Serve the engines of one place, in one process and without etcd",
		Flags: append(shared.PlaceFlags(publicListen, fmt.Sprintf("%s; %s while it is open; %s with -tls-domain", publicListen, openListen, httpsListen), "127.0.0.1:9080"),
			&cli.StringSliceFlag{Name: "engine", Destination: &c.Engines,
				Usage: "`URL` of an engine, which is asked what it is and which models it serves; repeat it for several"},
			&cli.StringFlag{Name: "config", Destination: &c.Documents, Usage: "`PATH` of a file or a directory with documents; a change is in force within a second"},
			&cli.BoolFlag{Name: "print-config", Destination: &printConfig, Usage: "print the documents that say the same as -engine, and end"},
			&cli.StringFlag{Name: "colo", Destination: &c.Colo, DefaultText: "the colo of the endpoints in -config, or " + node.DefaultColo,
				Usage: "`COLO` whose endpoints are served"},
			&cli.BoolFlag{Name: "open", Destination: &c.Open, Usage: "serve requests without a valid key, as the account open; set without -config and -tls-domain, unless it is -open=false"},
			&cli.StringFlag{Name: "tls-cert", Destination: &c.TLS.Cert,
				Usage: "PEM `FILE` with the certificate for clients and its chain; -listen then speaks HTTPS; reloaded when it changes"},
			&cli.StringFlag{Name: "tls-key", Destination: &c.TLS.Key, Usage: "PEM `FILE` with the key of -tls-cert"},
			&cli.StringSliceFlag{Name: "tls-domain", Destination: &c.ACME.Domains,
				Usage: "`NAME` of this host, for which a certificate is requested by ACME; the authority's terms of service count as accepted; repeat it for several"},
			&cli.StringFlag{Name: "tls-email", Destination: &c.ACME.Email, Usage: "`ADDRESS` at which the authority may reach the operator"},
			&cli.StringFlag{Name: "tls-acme", Destination: &c.ACME.Directory, DefaultText: "Let's Encrypt", Usage: "`URL` of the authority's directory"},
			&cli.StringFlag{Name: "tls-http-listen", Destination: &c.ACME.HTTPListen,
				Usage: "`ADDRESS` to which port 80 leads, for the challenge http-01 and to send browsers to HTTPS"},
			command.MaxConnsPerIPFlag(&c.MaxConnsPerIP)),
		Description: `Examples:
  colonnade serve -engine http://127.0.0.1:8000
  colonnade serve -engine http://127.0.0.1:8000 -print-config > place.yaml
  colonnade serve -config place.yaml -data-dir /var/lib/colonnade`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			c.Config = shared.PlaceConfig()
			if !cmd.IsSet("open") {
				c.Open = c.Documents == "" && len(c.ACME.Domains) == 0
			}
			switch {
			case cmd.IsSet("listen"):
			case len(c.ACME.Domains) > 0:
				c.Listen = httpsListen
			case c.Open: // else each machine of the network could use the engine
				c.Listen = openListen
			}
			if printConfig {
				return printFound(ctx, cmd, c)
			}
			return runServe(ctx, cmd.Writer, c)
		},
	}
}

// runServe serves until ctx is done.
func runServe(ctx context.Context, out io.Writer, c node.ServeConfig) error {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	c.Reload = reload
	c.Report = func(line string) { fmt.Fprintln(out, line) }
	var ballast command.Ballast
	defer ballast.Release()
	err := node.RunServe(ctx, c, func(r node.Running) {
		ballast.Take()
		printServing(out, r, c)
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; stop the program that listens there, or choose another address", err)
	}
	return err
}

// printServing prints where clients and operators find the process.
func printServing(out io.Writer, r node.Running, c node.ServeConfig) {
	base, listener := "http://"+onebox.Local(r.Address), ""
	switch {
	case len(c.ACME.Domains) > 0:
		base, listener = "https://"+c.ACME.Domains[0], "at "+r.Address+"; "
	case c.TLS.Cert != "":
		base = "https://" + onebox.Local(r.Address)
	}
	fmt.Fprintf(out, "\nserving on %s/v1 (%sadmin pages: http://%s)\n", base, listener, onebox.Local(r.Admin))
	if c.Open {
		fmt.Fprintf(out, "open: requests %s need no API key\n", fromWhere(r.Address))
		fmt.Fprintf(out, "try:  curl %s/v1/models\n", base)
	}
}

// fromWhere says which machines reach an address.
func fromWhere(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil && net.ParseIP(host).IsLoopback() {
		return "from this machine"
	}
	return "from every machine that reaches " + address
}

// printFound asks the engines what they serve, and prints the documents that say the same.
func printFound(ctx context.Context, cmd *cli.Command, c node.ServeConfig) error {
	if len(c.Engines) == 0 {
		return errors.New("-print-config prints what -engine finds: name an engine with -engine http://HOST:PORT")
	}
	var mu sync.Mutex // guards newest
	var newest []document.Raw
	finder := engines.New(engines.Config{
		URLs: c.Engines, Colo: cmp.Or(c.Colo, node.DefaultColo), Logger: slog.New(slog.DiscardHandler),
		Report: func(line string) { fmt.Fprintln(cmd.ErrWriter, line) },
		Found: func(docs []document.Raw) {
			mu.Lock()
			defer mu.Unlock()
			newest = docs
		},
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- finder.Run(ctx) }()
	select {
	case err := <-ended:
		if err == nil { // ctx is done; a script must not take an empty file for the documents
			err = errors.New("stopped before every engine has answered, so nothing is printed")
		}
		return err
	case <-finder.Complete():
	}
	cancel()
	if err := <-ended; err != nil {
		return err
	}
	text, err := document.JoinFile(newest)
	if err == nil {
		_, err = cmd.Writer.Write(text)
	}
	return err
}
