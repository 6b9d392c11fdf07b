package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/cmd/internal/command"
	"colonnade/forwarding/transport"
	"colonnade/onebox"
)

func newUp() *cli.Command {
	var c onebox.Config
	var colos string
	var latency []string
	var verbose bool
	return &cli.Command{
		Name: "up", Usage: "Run a whole fleet in this process, to try things out",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8080", Destination: &c.Listen, Validator: checkAddress, Usage: "`ADDRESS` of the entry"},
			&cli.StringFlag{Name: "admin", Value: "127.0.0.1:9080", Destination: &c.Admin, Validator: checkAddress, Usage: "`ADDRESS` of the entry's admin pages"},
			&cli.StringFlag{Name: "etcd-listen", Destination: &c.Etcd, Validator: checkAddress,
				Usage: "`ADDRESS` of the embedded etcd (default: 127.0.0.1:2379, or a free port)"},
			&cli.StringFlag{Name: "dir", Destination: &c.Dir, Usage: "`DIRECTORY` to keep etcd's data and events in (default: a temporary one)"},
			&cli.StringFlag{Name: "colos", Value: "ams:1,fra:1", Destination: &colos, Usage: fmt.Sprintf("`COLOS`, each with its number of servers, 1 to %d", onebox.MaxServers)},
			&cli.StringSliceFlag{Name: "latency", Destination: &latency,
				Usage: "round trips between places, such as `ams-fra=8ms,…`; a place is a colo or entry, which by default is where the first colo is"},
			&cli.IntFlag{Name: "engines", Value: 2, Destination: &c.Engines, Validator: atLeast(1), Usage: "`NUMBER` of simulated engines in each colo"},
			&cli.StringFlag{Name: "engine-url", Destination: &c.EngineURL, Validator: checkEngineURL, Usage: "`URL` of a real engine, instead of the simulated ones"},
			&cli.StringFlag{Name: "engine-model", Destination: &c.EngineModel, Usage: "`MODEL` of the real engine (default: all that it lists)"},
			command.CredentialsDirFlag(&c.CredentialsDir),
			command.AdminTokensFlag(&c.AdminTokens),
			&cli.StringFlag{Name: "tls-cert", Destination: &c.TLS.Cert, Usage: "PEM `FILE` with a certificate; the entry then speaks HTTPS"},
			&cli.StringFlag{Name: "tls-key", Destination: &c.TLS.Key, Usage: "PEM `FILE` with the key of -tls-cert"},
			&cli.BoolFlag{Name: "open", Value: true, Destination: &c.Open, Usage: "serve requests without a valid key, as the account open"},
			&cli.DurationFlag{Name: "drain", Value: 5 * time.Second, Destination: &c.Drain, Usage: "longest time that running requests may take after Ctrl-C"},
			&cli.BoolFlag{Name: "verbose", Destination: &verbose, Usage: "log what the nodes do"},
		}, engineFlags(&c.Engine)...),
		Description: `Examples:
  colonnade up
  colonnade up -colos ams:3,fra:1
  colonnade up -colos ams,fra,iad -engines 4 -dir /tmp/fleet
  colonnade up -colos ams,fra,iad -latency ams-fra=8ms,ams-iad=80ms`,
		Action: func(ctx context.Context, cmd *cli.Command) (err error) {
			if c.Colos, c.Servers, err = parseColos(colos); err != nil {
				return err
			}
			if c.Latency, err = onebox.ParseLatency(latency, c.Colos); err != nil {
				return fmt.Errorf("-latency %w", err)
			}
			if c.EngineURL == "" && c.EngineModel != "" {
				return errors.New("-engine-model is for a real engine: set -engine-url too")
			}
			c.Author = authorOf(cmd)
			return runUp(ctx, cmd.Writer, c, verbose)
		},
	}
}

// runUp runs the fleet until ctx is done.
func runUp(ctx context.Context, out io.Writer, c onebox.Config, verbose bool) error {
	c.Engine.TTFT, c.Engine.ITL = explicit(c.Engine.TTFT), explicit(c.Engine.ITL)
	began := time.Now()
	c.Progress = func(step string) { fmt.Fprintf(out, "  %4.1fs  %s\n", time.Since(began).Seconds(), step) }
	c.Logger = func(name string) *slog.Logger { return nodeLogger(name, verbose) }
	key, docs, err := demoAccount(began)
	if err != nil {
		return err
	}
	c.Documents = append(c.Documents, docs...)
	err = onebox.Run(ctx, c, func(f *onebox.Fleet) {
		printFleet(out, f, c)
		printQuickstart(out, f, c, key)
	})
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; stop the program that listens there, or choose another address (make up UP_FLAGS='-listen 127.0.0.1:8081 -admin 127.0.0.1:9081')", err)
	}
	return err
}

// parseColos parses colos such as "ams:3,fra" with the numbers of their servers. A colo without a number has one server.
func parseColos(flag string) (names []string, servers map[string]int, err error) {
	servers = map[string]int{}
	for part := range strings.SplitSeq(flag, ",") {
		name, number, numbered := strings.Cut(strings.TrimSpace(part), ":")
		n := 1
		if numbered {
			n, err = strconv.Atoi(number)
		}
		_, twice := servers[name]
		switch {
		case name == "":
			return nil, nil, fmt.Errorf("-colos %q: a colo has no name; write for example ams:3,fra:1", flag)
		case err != nil || n < 1 || n > onebox.MaxServers:
			return nil, nil, fmt.Errorf("-colos %q: colo %s cannot have %q servers: the number must be from 1 to %d", flag, name, number, onebox.MaxServers)
		case twice:
			return nil, nil, fmt.Errorf("-colos %q: colo %s is named twice; name it once, with the number of its servers (1 to %d)", flag, name, onebox.MaxServers)
		}
		names, servers[name] = append(names, name), n
	}
	return names, servers, nil
}

func checkAddress(address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("must be host:port, for example 127.0.0.1:8080 (%w)", err)
	}
	return nil
}

func checkEngineURL(url string) error {
	if _, err := transport.ParseTarget(url); err != nil {
		return fmt.Errorf("%w; write for example http://localhost:11434", err)
	}
	return nil
}

func nodeLogger(name string, verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("from", name)
}

// printFleet lists what runs where: role, name and URL.
func printFleet(out io.Writer, f *onebox.Fleet, c onebox.Config) {
	line := func(role, name, url string) { fmt.Fprintf(out, "%-8s %-12s %s\n", role, name, url) }
	fmt.Fprintln(out)
	line("etcd", "", f.Etcd)
	for _, e := range f.Engines {
		line("engine", e.Colo+"/"+e.ID, e.URL)
	}
	for _, s := range f.Colos {
		line("colo", s.Node, "http://"+onebox.Local(s.Admin)+"/debug/pools")
	}
	line("entry", f.Entry.Node, f.URL())
	for _, colo := range c.Colos {
		if c.Latency != nil {
			line("latency", onebox.EntryPlace+"-"+colo, c.Latency.Between(onebox.EntryPlace, colo, c.Colos).String())
		}
	}
	line("metrics", f.Entry.Node, "http://"+onebox.Local(f.Entry.Admin)+"/metrics")
	line("data-dir", "", f.Dir+"/nodes")
	if c.Dir == "" {
		fmt.Fprintln(out, "         (a temporary directory, removed at the end; -dir keeps one)")
	}
}
