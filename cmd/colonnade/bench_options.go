package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"colonnade/bench"
	"colonnade/node"
)

// benchFlags are the flags of bench overload.
type benchFlags struct {
	scenarios []string
	quick     bool
	gateways  []string
	remote    bench.Remote
	json, out string
	judge     bool
}

// options are what the flags ask for. What is left out is told to notes.
func (f *benchFlags) options(ctx context.Context, notes io.Writer) (bench.Options, error) {
	o := bench.Options{Quick: f.quick, Program: node.Version()}
	var err error
	if o.Scenarios, err = f.chosenScenarios(); err != nil {
		return o, err
	}
	if err := f.checkRemote(); err != nil {
		return o, err
	}
	if f.remote.URL != "" {
		o.Remote = &f.remote
	}
	o.Gateways, err = f.chosenGateways(func() (bench.Gateway, error) { return bench.HAProxy(ctx) }, notes)
	return o, err
}

// chosenScenarios are the names of scenarios; none is all.
func (f *benchFlags) chosenScenarios() ([]string, error) {
	known := []string{"all"}
	for _, c := range bench.Contests() {
		known = append(known, c.Name)
	}
	var names []string
	for _, name := range f.scenarios {
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
func (f *benchFlags) chosenGateways(haproxy func() (bench.Gateway, error), notes io.Writer) ([]bench.Gateway, error) {
	if f.remote.URL != "" && len(f.gateways) == 0 {
		return nil, nil
	}
	all := ownGateways()
	rival, err := haproxy()
	switch {
	case err == nil:
		all = append(all, rival)
	case slices.Contains(f.gateways, "haproxy"):
		return nil, fmt.Errorf("-gateways haproxy: %w", err)
	case len(f.gateways) == 0:
		fmt.Fprintln(notes, "left out:", err)
	}
	var chosen []bench.Gateway
	for i, name := range gatewayNames(all) {
		if f.remote.URL != "" {
			all[i].Judged = false // the one at the URL is
		}
		if len(f.gateways) == 0 || slices.Contains(f.gateways, name) {
			chosen = append(chosen, all[i])
		}
	}
	for _, name := range f.gateways {
		if !slices.Contains(gatewayNames(all), name) {
			return nil, fmt.Errorf("-gateways %q: there is no such gateway; there are %s", name, strings.Join(gatewayNames(all), ", "))
		}
	}
	return chosen, nil
}

// checkRemote checks what is said of a gateway that runs already.
func (f *benchFlags) checkRemote() error {
	r := &f.remote
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
		if err := checkAddress("-engines", address); err != nil {
			return err
		}
	}
	return nil
}

// checkFiles finds out that files cannot be written before there is anything to lose.
func (f *benchFlags) checkFiles() error {
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return fmt.Errorf("-out %q: %w", f.out, err)
		}
		if err := canWrite(f.out); err != nil {
			return fmt.Errorf("-out %q: %w", f.out, err)
		}
	}
	if f.json != "" && f.json != "-" {
		err := canWrite(filepath.Dir(f.json))
		if info, there := os.Stat(f.json); there == nil && info.IsDir() {
			err = cmp.Or(err, errors.New("that is a directory; name a file"))
		}
		if err != nil {
			return fmt.Errorf("-json %q: %w", f.json, err)
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
