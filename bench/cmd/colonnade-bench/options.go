package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colonnade/bench"
	"colonnade/node"
)

// options are the values of the flags.
type options struct {
	scenarios []string
	quick     bool
	gateways  []string
	remote    bench.Remote
	json, out string
	judge     bool
}

// flags returns the flag set that fills o. It prints nothing by itself.
func (o *options) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("colonnade-bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	flags.Func("scenario", "`names` of scenarios to run, separated by commas (default: all)", appendTo(&o.scenarios))
	flags.BoolVar(&o.quick, "quick", false, "run each scenario for a few seconds only, to see that it works; thresholds are not judged")
	flags.Func("gateways", "`names` of gateways to measure: "+strings.Join(gatewayNames(ownGateways()), ", ")+", haproxy (default: all, or none with -url)", appendTo(&o.gateways))
	flags.StringVar(&o.remote.URL, "url", "", "base `URL` of a gateway that already runs, ending in /v1")
	flags.StringVar(&o.remote.Model, "model", "", "`name` of the model to request from the gateway at -url")
	flags.Func("key", "API `key` for the gateway at -url; several keys are several accounts (default: OPENAI_API_KEY)", appendTo(&o.remote.Keys))
	flags.Func("engines", "`addresses` of the engines of the gateway at -url; simulated engines are started there (default: the gateway has its own)", appendTo(&o.remote.Engines))
	flags.IntVar(&o.remote.Slots, "slots", 0, "`number` of requests that all engines of the gateway at -url run at once (default: 4 for each of -engines)")
	flags.StringVar(&o.json, "json", "", "`file` for the report as JSON; - is standard output, in place of the tables")
	flags.StringVar(&o.out, "out", "", "`directory` for the report as a page with plots, and as JSON")
	flags.BoolVar(&o.judge, "judge", true, "fail if a threshold is missed; never with -quick")
	return flags
}

// appendTo adds values, which are separated by commas, to a list.
func appendTo(list *[]string) func(string) error {
	return func(values string) error {
		*list = append(*list, strings.Split(values, ",")...)
		return nil
	}
}

// config is what the flags ask for. Gateways that are left out are named in notes.
func (o *options) config(ctx context.Context, notes io.Writer) (bench.Options, error) {
	c := bench.Options{Quick: o.quick, Program: node.Version()}
	var err error
	if c.Scenarios, err = o.chosenScenarios(); err != nil {
		return c, err
	}
	if err := o.checkRemote(); err != nil {
		return c, err
	}
	if o.remote.URL != "" {
		c.Remote = &o.remote
	}
	c.Gateways, err = o.chosenGateways(func() (bench.Gateway, error) { return bench.HAProxy(ctx) }, notes)
	return c, err
}

// chosenScenarios are the names of scenarios; none is all.
func (o *options) chosenScenarios() ([]string, error) {
	known := []string{"all"}
	for _, c := range bench.Scenarios() {
		known = append(known, c.Name)
	}
	var names []string
	for _, name := range o.scenarios {
		name = strings.TrimSpace(name)
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("-scenario %q: there is no such scenario; there are %s", name, strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	if slices.Contains(names, "all") {
		return nil, nil
	}
	return names, nil
}

// chosenGateways are the contestants, without the one at -url.
func (o *options) chosenGateways(haproxy func() (bench.Gateway, error), notes io.Writer) ([]bench.Gateway, error) {
	if o.remote.URL != "" && len(o.gateways) == 0 {
		return nil, nil
	}
	all := ownGateways()
	rival, err := haproxy()
	switch {
	case err == nil:
		all = append(all, rival)
	case slices.Contains(o.gateways, "haproxy"):
		return nil, fmt.Errorf("-gateways haproxy: %w", err)
	case len(o.gateways) == 0:
		fmt.Fprintln(notes, "left out:", err)
	}
	var chosen []bench.Gateway
	for i, name := range gatewayNames(all) {
		if o.remote.URL != "" {
			all[i].Judged = false // the one at the URL is
		}
		if len(o.gateways) == 0 || slices.Contains(o.gateways, name) {
			chosen = append(chosen, all[i])
		}
	}
	for _, name := range o.gateways {
		if !slices.Contains(gatewayNames(all), name) {
			return nil, fmt.Errorf("-gateways %q: there is no such gateway; there are %s", name, strings.Join(gatewayNames(all), ", "))
		}
	}
	return chosen, nil
}

// checkRemote checks what is said of a gateway that runs already.
func (o *options) checkRemote() error {
	r := &o.remote
	if r.URL == "" {
		for _, flag := range []struct {
			name  string
			given bool
		}{{"-model", r.Model != ""}, {"-key", len(r.Keys) > 0}, {"-engines", len(r.Engines) > 0}, {"-slots", r.Slots != 0}} {
			if flag.given {
				return fmt.Errorf("%s is for a gateway that runs already: name it with -url", flag.name)
			}
		}
		return nil
	}
	const write = "write for example http://127.0.0.1:8080/v1"
	u, err := url.Parse(r.URL)
	switch {
	case err != nil:
		return fmt.Errorf("-url %q: %w; %s", r.URL, errors.Unwrap(err), write)
	case u.Scheme == "https":
		return fmt.Errorf("-url %q: TLS would cost the load generator more than the gateway is asked for; give it a listener without, and %s", r.URL, write)
	case u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("-url %q: must begin with http:// and a host; %s", r.URL, write)
	case strings.Trim(u.Path, "/") == "":
		return fmt.Errorf("-url %q: must be the base URL that SDKs are given, which mostly ends in /v1; %s", r.URL, write)
	case r.Model == "":
		return errors.New("-url needs -model: the name of a model that the gateway serves")
	case r.Slots < 0:
		return fmt.Errorf("-slots %d: must not be negative", r.Slots)
	}
	if len(r.Keys) == 0 && os.Getenv("OPENAI_API_KEY") != "" {
		r.Keys = []string{os.Getenv("OPENAI_API_KEY")}
	}
	if len(r.Keys) == 0 {
		return errors.New("-url needs -key: an API key that the gateway takes, or any word if it takes all; several stand for several accounts")
	}
	for _, address := range r.Engines {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("-engines %q: must be host:port, for example 127.0.0.1:9001 (%w)", address, err)
		}
	}
	return nil
}

// checkFiles finds out that files cannot be written before there is anything to lose.
func (o *options) checkFiles() error {
	if o.out != "" {
		if err := os.MkdirAll(o.out, 0o755); err != nil {
			return fmt.Errorf("-out %q: %w", o.out, err)
		}
		if err := canWrite(o.out); err != nil {
			return fmt.Errorf("-out %q: %w", o.out, err)
		}
	}
	if o.json != "" && o.json != "-" {
		err := canWrite(filepath.Dir(o.json))
		if info, there := os.Stat(o.json); there == nil && info.IsDir() {
			err = cmp.Or(err, errors.New("that is a directory; name a file"))
		}
		if err != nil {
			return fmt.Errorf("-json %q: %w", o.json, err)
		}
	}
	return nil
}

func canWrite(dir string) error {
	file, err := os.CreateTemp(dir, ".colonnade-*")
	if err != nil {
		return err
	}
	file.Close()
	return os.Remove(file.Name())
}

func writeFile(name string, write func(io.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
