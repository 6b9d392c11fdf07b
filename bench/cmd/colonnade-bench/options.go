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
	scenarios       []string
	quick           bool
	gateways        []string
	remote          bench.Remote
	from, json, out string
	judge           bool
}

// flags returns the flag set that fills o. It prints nothing by itself.
func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("colonnade-bench", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Func("scenario", "`names` of scenarios to run, separated by commas (default: all)", appendTo(&o.scenarios))
	f.BoolVar(&o.quick, "quick", false, "run each scenario for a few seconds only, to see that it works; thresholds are not judged")
	f.Func("gateways", "`names` of gateways to measure: "+strings.Join(gatewayNames(ownGateways()), ", ")+
		", haproxy (default: all, or none with -url)", appendTo(&o.gateways))
	f.StringVar(&o.remote.URL, "url", "", "base `URL` of a gateway that already runs, ending in /v1")
	f.StringVar(&o.remote.Model, "model", "", "`name` of the model to request from the gateway at -url")
	f.Func("key", "API `key` for the gateway at -url; several keys are several accounts (default: OPENAI_API_KEY)", appendTo(&o.remote.Keys))
	f.Func("engines", "`addresses` of the engines of the gateway at -url; simulated engines are started there (default: it has its own)",
		appendTo(&o.remote.Engines))
	f.IntVar(&o.remote.Slots, "slots", 0, "`number` of requests that all engines of the gateway at -url run at once (default: 4 for each of -engines)")
	f.StringVar(&o.from, "from", "", "`file` with a report as JSON, to show and to render again instead of measuring")
	f.StringVar(&o.json, "json", "", "`file` for the report as JSON; - is standard output, in place of the tables")
	f.StringVar(&o.out, "out", "", "`directory` for the report as a page with charts, and as JSON")
	f.BoolVar(&o.judge, "judge", true, "fail if a threshold is missed; never with -quick")
	return f
}

// appendTo adds values, which are separated by commas, to a list.
func appendTo(list *[]string) func(string) error {
	return func(values string) error {
		for value := range strings.SplitSeq(values, ",") {
			*list = append(*list, strings.TrimSpace(value))
		}
		return nil
	}
}

// config is what the flags ask to run. A gateway that is left out is named in notes.
func (o *options) config(ctx context.Context, notes io.Writer) (c bench.Options, err error) {
	c = bench.Options{Quick: o.quick, Program: node.Version()}
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

// chosenScenarios are names of scenarios; none means all.
func (o *options) chosenScenarios() ([]string, error) {
	known := []string{"all"}
	for _, c := range bench.Scenarios() {
		known = append(known, c.Name)
	}
	if err := checkNames("-scenario", "scenario", o.scenarios, known); err != nil || slices.Contains(o.scenarios, "all") {
		return nil, err
	}
	return o.scenarios, nil
}

func checkNames(flag, thing string, names, known []string) error {
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s %q: there is no such %s; there are %s", flag, name, thing, strings.Join(known, ", "))
		}
	}
	return nil
}

// chosenGateways are the gateways to measure, without the one at -url.
func (o *options) chosenGateways(haproxy func() (bench.Gateway, error), notes io.Writer) ([]bench.Gateway, error) {
	if o.remote.URL != "" && len(o.gateways) == 0 {
		return nil, nil
	}
	all := ownGateways()
	switch h, err := haproxy(); {
	case err == nil:
		all = append(all, h)
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
	return chosen, checkNames("-gateways", "gateway", o.gateways, gatewayNames(all))
}

// gatewayNames are names as -gateways takes them: with a dash for a space.
func gatewayNames(gateways []bench.Gateway) []string {
	var names []string
	for _, g := range gateways {
		names = append(names, strings.ReplaceAll(g.Name, " ", "-"))
	}
	return names
}

// checkRemote checks the flags of a gateway that already runs.
func (o *options) checkRemote() error {
	r := &o.remote
	if r.URL == "" {
		given := map[string]bool{"-model": r.Model != "", "-key": len(r.Keys) > 0, "-engines": len(r.Engines) > 0, "-slots": r.Slots != 0}
		for _, name := range []string{"-model", "-key", "-engines", "-slots"} {
			if given[name] {
				return fmt.Errorf("%s is for a gateway that already runs: name it with -url", name)
			}
		}
		return nil
	}
	if err := checkURL(r.URL); err != nil {
		return err
	}
	if len(r.Keys) == 0 && os.Getenv("OPENAI_API_KEY") != "" {
		r.Keys = []string{os.Getenv("OPENAI_API_KEY")}
	}
	switch {
	case r.Model == "":
		return errors.New("-url needs -model: the name of a model that the gateway serves")
	case r.Slots < 0:
		return fmt.Errorf("-slots %d: must not be negative", r.Slots)
	case len(r.Keys) == 0:
		return errors.New("-url needs -key: an API key that the gateway takes, or any word if it takes all; several keys are several accounts")
	}
	for _, address := range r.Engines {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("-engines %q: must be host:port, for example 127.0.0.1:9001 (%w)", address, err)
		}
	}
	return nil
}

func checkURL(given string) error {
	const write = "write for example http://127.0.0.1:8080/v1"
	u, err := url.Parse(given)
	switch {
	case err != nil:
		return fmt.Errorf("-url %q: %w; %s", given, errors.Unwrap(err), write)
	case u.Scheme == "https":
		return fmt.Errorf("-url %q: TLS would cost the load generator more than the gateway; give the gateway a listener without TLS, and %s", given, write)
	case u.Scheme != "http" || u.Host == "":
		return fmt.Errorf("-url %q: must begin with http:// and a host; %s", given, write)
	case strings.Trim(u.Path, "/") == "":
		return fmt.Errorf("-url %q: must be the base URL that SDKs are given, which mostly ends in /v1; %s", given, write)
	}
	return nil
}

// checkFiles reports files that cannot be written before a run, rather than after it.
func (o *options) checkFiles() error {
	if o.out != "" {
		err := cmp.Or(os.MkdirAll(o.out, 0o755), checkWritable(o.out))
		if err != nil {
			return fmt.Errorf("-out %q: %w", o.out, err)
		}
	}
	if o.json != "" && o.json != "-" {
		err := checkWritable(filepath.Dir(o.json))
		if info, statErr := os.Stat(o.json); statErr == nil && info.IsDir() {
			err = cmp.Or(err, errors.New("is a directory; name a file"))
		}
		if err != nil {
			return fmt.Errorf("-json %q: %w", o.json, err)
		}
	}
	return nil
}

func checkWritable(dir string) error {
	file, err := os.CreateTemp(dir, ".colonnade-*")
	if err != nil {
		return err
	}
	file.Close()
	return os.Remove(file.Name())
}
