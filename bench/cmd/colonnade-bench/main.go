// Command colonnade-bench measures gateways: under overload, and what requests cost.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"colonnade/bench"
	"colonnade/bench/cost"
)

func main() {
	if err := cost.RunRole(); err != nil { // this process is one of those of a run
		fmt.Fprintln(os.Stderr, "colonnade-bench:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "colonnade-bench:", err)
		os.Exit(1)
	}
}

const usage = `colonnade-bench measures what gateways do with more load than their engines can serve: how much of the
capacity each account gets, how long requests wait, how many are refused and how soon, and what is left
over afterwards.

It starts simulated engines and each gateway in front of engines of its own: Colonnade, the same without
a queue, with a FIFO queue and with round robin by account, and HAProxy where it is installed. It sends
open-loop load, shows its progress, and prints tables; -out also writes a page with charts. A full run
takes about thirteen minutes and needs the machine for itself; -quick takes less than 40 s. The exit
status is 1 if a threshold is missed, unless the run itself has measured why it cannot be reached.

With -url it measures a gateway that already runs, if it speaks OpenAI's API. Point that gateway at
simulated engines (-engines) if you can: then the capacity is known and no GPU is needed. The fleet of
"colonnade up" serves the model demo-chat and takes any key; unknown keys belong to one account.

colonnade-bench cost measures what requests cost; colonnade-bench cost -h says more.

Examples:
  colonnade-bench -quick
  colonnade-bench -scenario flood -gateways colonnade,haproxy -out /tmp/bench
  colonnade-bench -scenario load -quick -url http://127.0.0.1:8080/v1 -model demo-chat -key none
  colonnade-bench -url http://127.0.0.1:8080/v1 -model mine -key sk-1 -key sk-2 -key sk-3 \
    -engines 127.0.0.1:9001,127.0.0.1:9002 -out /tmp/bench
  colonnade-bench -from docs/overload.json -out docs

Scenarios:
%s
Flags:
`

// run runs one command line. The report goes to out, progress and notes go to notes.
func run(ctx context.Context, args []string, out, notes io.Writer) error {
	if len(args) > 0 && args[0] == "cost" {
		return runCost(ctx, args[1:], out, notes)
	}
	var o options
	flags := o.flags()
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		fmt.Fprintf(out, usage, scenarioList())
		flags.PrintDefaults()
		return nil
	case err != nil:
		return fmt.Errorf("%w; see colonnade-bench -h", err)
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q: colonnade-bench takes only flags; see colonnade-bench -h", flags.Arg(0))
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	report, err := o.report(ctx, notes)
	if err != nil {
		return err
	}
	if err := o.deliver(report, out, notes); err != nil {
		return err
	}
	return o.verdict(report)
}

// scenarioList has the name and the title of each scenario, on a line each.
func scenarioList() string {
	var out strings.Builder
	for _, c := range bench.Scenarios() {
		fmt.Fprintf(&out, "  %-12s %s\n", c.Name, c.Title)
	}
	return out.String()
}

// report measures, or reads a saved report.
func (o *options) report(ctx context.Context, notes io.Writer) (report *bench.Report, err error) {
	if o.from != "" {
		file, err := os.Open(o.from)
		if err != nil {
			return nil, fmt.Errorf("-from: %w", err)
		}
		defer file.Close()
		return bench.ReadJSON(file)
	}
	config, err := o.config(ctx, notes)
	if err != nil {
		return nil, err
	}
	if config.Dir, err = os.MkdirTemp("", "colonnade-bench-"); err != nil {
		return nil, fmt.Errorf("cannot make a directory for the gateways: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(config.Dir)) }()
	p := progress{to: notes, terminal: isTerminal(notes)}
	config.Progress = p.show
	report, err = bench.Run(ctx, config)
	p.end()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return nil, errors.New("interrupted: nothing is reported")
	}
	return report, err
}

// deliver prints the report and writes its files.
func (o *options) deliver(report *bench.Report, out, notes io.Writer) error {
	var err error
	if o.json == "-" {
		err = bench.WriteJSON(out, report)
	} else {
		err = bench.WriteText(out, report, screenOf(out))
	}
	if err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	if o.json != "" && o.json != "-" {
		if err := bench.WriteFile(o.json, func(w io.Writer) error { return bench.WriteJSON(w, report) }); err != nil {
			return err
		}
		fmt.Fprintln(notes, "wrote", o.json)
	}
	if o.out == "" {
		return nil
	}
	files, err := bench.Save(report, o.out)
	if err != nil {
		return err
	}
	fmt.Fprintf(notes, "wrote %s and %d more files\n", files[0], len(files)-1)
	return nil
}

// verdict is an error if a threshold was missed that could have been met. A quick run is too rough for a verdict.
func (o *options) verdict(report *bench.Report) error {
	var notes []string
	measured := false
	for _, s := range report.Scenarios {
		measured = measured || len(s.Rows) > 0
		notes = append(notes, s.Notes...)
	}
	if !measured {
		return errors.New("nothing was measured:\n" + strings.Join(notes, "\n"))
	}
	if missed := report.Failures(); len(missed) > 0 && o.judge && !report.Quick {
		return fmt.Errorf("thresholds missed: %s", strings.Join(missed, ", "))
	}
	return nil
}
