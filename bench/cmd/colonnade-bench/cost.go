package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"colonnade/bench"
	"colonnade/bench/cost"
	"colonnade/node"
)

const costUsage = `colonnade-bench cost measures what requests cost: processor time, latency and memory of Colonnade, as entry
and colo and as one process, beside nginx and HAProxy, where they are installed, and bare proxies that do
nothing else.

It starts an engine and each contestant as processes of their own, which take turns, shows its progress, and
prints tables; -out also writes a page with charts. A full run takes a quarter of an hour and needs the machine
for itself; -quick takes less than two minutes. The programs entry, colo and colonnade must be in -programs.

Examples:
  colonnade-bench cost -quick
  colonnade-bench cost -scenario plain,chunk -out /tmp/bench
  colonnade-bench cost -from docs/performance.json -out docs

Scenarios: %s

Flags:
`

// costOptions are the values of the flags of cost.
type costOptions struct {
	options
	tiny             bool
	programs, source string
	beside           string
}

func (o *costOptions) flags() *flag.FlagSet {
	f := flag.NewFlagSet("colonnade-bench cost", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Func("scenario", "`names` of scenarios to run, separated by commas (default: all)", appendTo(&o.scenarios))
	f.BoolVar(&o.quick, "quick", false, "take fewer and shorter rounds; figures are rough")
	f.BoolVar(&o.tiny, "tiny", false, "only see that all contestants are served; figures mean nothing")
	f.StringVar(&o.programs, "programs", "bin", "`directory` of the programs entry, colo and colonnade")
	f.StringVar(&o.beside, "beside", "", "`directory` of the same programs of another version, which become contestants too")
	f.StringVar(&o.source, "source", "", "`directory` of the source, for the Go benchmarks of single functions (default: they are left out)")
	f.StringVar(&o.from, "from", "", "`file` with a report as JSON, to show and to render again instead of measuring")
	f.StringVar(&o.json, "json", "", "`file` for the report as JSON; - is standard output, in place of the tables")
	f.StringVar(&o.out, "out", "", "`directory` for the report as a page with charts, and as JSON")
	return f
}

// runCost runs one command line of cost.
func runCost(ctx context.Context, args []string, out, notes io.Writer) error {
	var o costOptions
	flags := o.flags()
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		fmt.Fprintf(out, costUsage, strings.Join(cost.Scenarios(), ", "))
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w; see colonnade-bench cost -h", err)
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: colonnade-bench cost takes only flags; see colonnade-bench cost -h", flags.Arg(0))
	}
	if err := checkNames("-scenario", "scenario", o.scenarios, cost.Scenarios()); err != nil {
		return err
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	report, err := o.measure(ctx, notes)
	if err != nil {
		return err
	}
	return o.deliver(report, out, notes)
}

// measure measures, or reads a saved report.
func (o *costOptions) measure(ctx context.Context, notes io.Writer) (report *bench.Report, err error) {
	if o.from != "" {
		return o.report(ctx, notes)
	}
	c := cost.Options{Size: cost.Full(), Scenarios: o.scenarios, Programs: o.programs, Source: o.source, Beside: o.beside}
	switch {
	case o.tiny:
		c.Size = cost.Tiny()
	case o.quick:
		c.Size = cost.Quick()
	}
	if c.Dir, err = os.MkdirTemp("", "colonnade-bench-"); err != nil {
		return nil, fmt.Errorf("cannot make a directory for the contestants: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.Dir)) }()
	p := progress{to: notes, terminal: isTerminal(notes)}
	c.Progress = func(now cost.Progress) {
		p.show(bench.Progress{Scenario: now.Scenario, Gateway: now.Contestant, Doing: now.Doing, Done: now.Done, Left: now.Left})
	}
	report, err = bench.Performance(ctx, c, o.quick || o.tiny, node.Version())
	p.end()
	if ctx.Err() != nil {
		return nil, errors.New("interrupted: nothing is reported")
	}
	return report, err
}
