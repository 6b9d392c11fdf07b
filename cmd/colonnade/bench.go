package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"colonnade/bench"
)

func newBench() *cobra.Command {
	return group(&cobra.Command{
		Use: "bench", Short: "Measure how gateways behave",
		Example: "  colonnade bench overload -quick",
	}, newOverload())
}

func newOverload() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "overload",
		Short: "Judge gateways by what they do with more load than their engines can serve",
		Long: `Judge gateways by what they do with more load than their engines can serve: who gets what, who waits
how long, who is refused and how soon, and what is left over afterwards.

It starts simulated engines and before them each gateway: Colonnade, the same without a queue, with
a plain one and with turns by count, and HAProxy where it is installed. It sends them open-loop
load, shows what is going on, and prints a table; -out also writes a page with plots. A full run
takes about thirteen minutes and wants the machine for itself; -quick takes less than 40 s. It fails
if a mark is missed, unless the run itself has measured why it cannot be reached.

With -url it judges a gateway that runs already, whatever it is, as long as it speaks OpenAI's API.
Point it at simulated engines (-engines) if you can: then capacity is known, and no GPU is needed.
The fleet of colonnade up serves demo-chat, and takes any key: unknown ones are all one account.

Scenarios:
` + scenarioList(),
		Example: `  colonnade bench overload -quick
  colonnade bench overload -scenario flood -gateways colonnade,haproxy -out /tmp/bench
  colonnade bench overload -scenario load -quick \
    -url http://127.0.0.1:8080/v1 -model demo-chat -key none
  colonnade bench overload -url http://127.0.0.1:8080/v1 -model mine -key sk-1 -key sk-2 -key sk-3 \
    -engines 127.0.0.1:9001,127.0.0.1:9002 -out /tmp/bench`,
		Args: noMore,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.scenarios, "scenario", []string{"all"}, "scenarios to run, of those above, or all")
	flags.BoolVar(&f.quick, "quick", false, "a few seconds for each scenario: to see that it works; marks are no verdict")
	flags.StringSliceVar(&f.gateways, "gateways", nil, "gateways to measure: "+strings.Join(gatewayNames(ownGateways()), ", ")+", haproxy (default: all, or none with -url)")
	flags.StringVar(&f.remote.URL, "url", "", "base URL of a gateway that runs already, ending in /v1")
	flags.StringVar(&f.remote.Model, "model", "", "model to ask the gateway at -url for")
	flags.StringSliceVar(&f.remote.Keys, "key", nil, "API key for the gateway at -url; several are several accounts (default: OPENAI_API_KEY)")
	flags.StringSliceVar(&f.remote.Engines, "engines", nil, "addresses that the gateway at -url has its engines at: simulated ones are started there (default: it has its own)")
	flags.IntVar(&f.remote.Slots, "slots", 0, "requests that all engines of the gateway at -url run at once (default: 4 for each of -engines)")
	flags.StringVar(&f.json, "json", "", "file for the report as JSON; - is standard output, instead of the table")
	flags.StringVar(&f.out, "out", "", "directory for the report as a page, as JSON and with plots")
	flags.BoolVar(&f.judge, "judge", true, "fail if a mark is missed; never with -quick")
	return cmd
}

// scenarioList names the scenarios, a line each.
func scenarioList() string {
	var out strings.Builder
	for _, c := range bench.Contests() {
		fmt.Fprintf(&out, "  %-12s %s\n", c.Name, c.Title)
	}
	return strings.TrimRight(out.String(), "\n")
}

// gatewayNames are names as -gateways takes them: with a dash for a space.
func gatewayNames(gateways []bench.Gateway) []string {
	var names []string
	for _, g := range gateways {
		names = append(names, strings.ReplaceAll(g.Name, " ", "-"))
	}
	return names
}

// run measures, prints and saves.
func (f *benchFlags) run(cmd *cobra.Command) (err error) {
	options, err := f.options(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := f.checkFiles(); err != nil {
		return err
	}
	if options.Dir, err = os.MkdirTemp("", "colonnade-bench-"); err != nil {
		return fmt.Errorf("cannot make a directory for the gateways: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(options.Dir)) }()
	progress := &progressLine{to: cmd.ErrOrStderr(), rewrite: isTerminal(cmd.ErrOrStderr())}
	options.Progress = progress.show
	report, err := bench.Run(cmd.Context(), options)
	progress.end()
	switch {
	case cmd.Context().Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return errors.New("ended before all was measured: nothing is reported")
	case err != nil:
		return err
	}
	if err := f.deliver(report, cmd.OutOrStdout(), cmd.ErrOrStderr()); err != nil {
		return err
	}
	return f.verdict(report)
}

// deliver prints the report and writes its files.
func (f *benchFlags) deliver(report *bench.Report, out, notes io.Writer) error {
	if f.json == "-" {
		if err := bench.WriteJSON(out, report); err != nil {
			return err
		}
	} else {
		bench.WriteTable(out, report, bench.Screen{Width: 120, Colour: isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"})
	}
	if f.json != "" && f.json != "-" {
		if err := writeFile(f.json, func(w io.Writer) error { return bench.WriteJSON(w, report) }); err != nil {
			return err
		}
		fmt.Fprintln(notes, "wrote", f.json)
	}
	if f.out != "" {
		files, err := bench.Save(report, f.out)
		if err != nil {
			return err
		}
		fmt.Fprintf(notes, "wrote %s and %s\n", files[0], count(len(files)-1, "file"))
	}
	return nil
}

// verdict is an error if a mark was missed that could have been reached. A quick run is too rough to tell.
func (f *benchFlags) verdict(report *bench.Report) error {
	if why := nothingRan(report); why != "" {
		return errors.New("nothing was measured: " + why)
	}
	missed := slices.DeleteFunc(report.Missed(), func(m bench.Mark) bool { return m.Why != "" })
	if len(missed) == 0 || f.quick || !f.judge {
		return nil
	}
	var names []string
	for _, m := range missed {
		if name := m.Gateway + ": " + m.Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return fmt.Errorf("%s missed: %s", count(len(missed), "mark"), strings.Join(names, ", "))
}

// nothingRan says why no scenario found anything; it is empty if one did.
func nothingRan(report *bench.Report) string {
	var why []string
	for _, s := range report.Scenarios {
		if len(s.Rows) > 0 {
			return ""
		}
		why = append(why, s.Name+": "+strings.Join(s.Notes, " "))
	}
	return strings.Join(why, "\n")
}
