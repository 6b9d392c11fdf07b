package main

import (
	"cmp"
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

	"github.com/spf13/cobra"

	"colonnade/forwarding/transport"
	"colonnade/onebox"
)

func newUp() *cobra.Command {
	var c onebox.Config
	var colos string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a whole fleet in this process, to try things out",
		Example: `  colonnade up
  colonnade up -colos ams,fra,iad -engines 4 -dir /tmp/fleet`,
		Args: noMore,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Colos, err = parseColos(colos); err != nil {
				return err
			}
			if err := checkUp(c); err != nil {
				return err
			}
			c.Engine.TTFT, c.Engine.ITL = exactly(c.Engine.TTFT), exactly(c.Engine.ITL)
			out := cmd.OutOrStdout()
			began := time.Now()
			c.Progress = func(what string) { fmt.Fprintf(out, "  %4.1fs  %s\n", time.Since(began).Seconds(), what) }
			c.Logger = func(name string) *slog.Logger { return nodeLogger(name, verbose) }
			key, docs, err := demoAccount(began)
			if err != nil {
				return err
			}
			c.Documents = append(c.Documents, docs...)
			err = onebox.Run(cmd.Context(), c, func(f *onebox.Fleet) { printFleet(out, f, c, key) })
			if errors.Is(err, syscall.EADDRINUSE) {
				err = fmt.Errorf("%w; stop what listens there, or choose another address (make up UP_FLAGS='-listen 127.0.0.1:8081 -admin 127.0.0.1:9081')", err)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:8080", "address of the entry")
	flags.StringVar(&c.Admin, "admin", "127.0.0.1:9080", "address of the entry's admin pages")
	flags.StringVar(&c.Etcd, "etcd-listen", "", "address of the embedded etcd (default 127.0.0.1:2379, or a free port)")
	flags.StringVar(&c.Dir, "dir", "", "directory for etcd's data and events, kept (default: a temporary one)")
	flags.StringVar(&colos, "colos", "ams:1,fra:1", "colos, each with its number of servers")
	flags.IntVar(&c.Engines, "engines", 2, "simulated engines in each colo")
	flags.IntVar(&c.Engine.Slots, "slots", 4, "slots of each engine")
	flags.DurationVar(&c.Engine.TTFT, "ttft", 50*time.Millisecond, "simulated time to the first token")
	flags.DurationVar(&c.Engine.ITL, "itl", 10*time.Millisecond, "simulated time between two tokens")
	flags.StringVar(&c.TLS.Cert, "tls-cert", "", "file with a certificate: the entry then speaks HTTPS")
	flags.StringVar(&c.TLS.Key, "tls-key", "", "file with the key of -tls-cert")
	flags.StringVar(&c.EngineURL, "engine-url", "", "URL of a real engine, instead of the simulated ones")
	flags.StringVar(&c.EngineModel, "engine-model", "", "model of the real engine (default: all that it lists)")
	flags.BoolVar(&c.Open, "open", true, "serve requests without a valid key, as the account open")
	flags.DurationVar(&c.Drain, "drain", 5*time.Second, "how long running requests may go on after Ctrl-C")
	flags.BoolVar(&verbose, "verbose", false, "log what the nodes do")
	return cmd
}

// parseColos reads "ams:1,fra:1".
func parseColos(s string) ([]string, error) {
	var names []string
	for part := range strings.SplitSeq(s, ",") {
		name, count, ok := strings.Cut(strings.TrimSpace(part), ":")
		n := 1
		if ok {
			var err error
			if n, err = strconv.Atoi(count); err != nil {
				return nil, fmt.Errorf("-colos %q: %q is not a number of servers", s, count)
			}
		}
		if name == "" {
			return nil, fmt.Errorf("-colos %q: a colo has no name; write for example ams:1,fra:1", s)
		}
		if n != 1 {
			return nil, fmt.Errorf("-colos %q: colo %s has %d servers: in this version a colo has one", s, name, n)
		}
		names = append(names, name)
	}
	return names, nil
}

func checkUp(c onebox.Config) error {
	if err := cmp.Or(checkAddress("-listen", c.Listen), checkAddress("-admin", c.Admin), checkEngine(c.Engine)); err != nil {
		return err
	}
	if c.Etcd != "" {
		if err := checkAddress("-etcd-listen", c.Etcd); err != nil {
			return err
		}
	}
	if c.EngineURL != "" {
		if _, err := transport.ParseTarget(c.EngineURL); err != nil {
			return fmt.Errorf("-engine-url: %w; write for example http://localhost:11434", err)
		}
	}
	switch {
	case c.EngineURL == "" && c.Engines < 1:
		return fmt.Errorf("-engines %d: must be at least 1", c.Engines)
	case c.EngineURL == "" && c.EngineModel != "":
		return errors.New("-engine-model is for a real engine: name it with -engine-url")
	}
	return nil
}

func checkAddress(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("%s %q: must be host:port, for example 127.0.0.1:8080 (%w)", flag, address, err)
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

// printFleet says what runs where, and what to paste first. key is that of the account demo.
func printFleet(out io.Writer, f *onebox.Fleet, c onebox.Config, key string) {
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
	line("metrics", f.Entry.Node, "http://"+onebox.Local(f.Entry.Admin)+"/metrics")
	line("data-dir", "", f.Dir+"/nodes")
	if c.Dir == "" {
		fmt.Fprintln(out, "         (a temporary directory, removed at the end; -dir keeps one)")
	}
	printPastes(out, f, c, key)
}
