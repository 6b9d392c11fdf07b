// Command colonnade-bench measures how gateways behave under overload.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"colonnade/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "colonnade-bench:", err)
		os.Exit(1)
	}
}

// run runs one command line. Reports go to out; progress and notes go to notes.
func run(ctx context.Context, args []string, out, notes io.Writer) error {
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
	return o.run(ctx, out, notes)
}

const usage = `colonnade-bench measures what gateways do with more load than their engines can serve: how much of the capacity
each account gets, how long requests wait, how many are refused and how soon, and what is left over afterwards.

It starts simulated engines and each gateway in front of engines of its own: Colonnade, the same without a queue,
with a FIFO queue and with round robin by account, and HAProxy where it is installed. It sends open-loop load,
shows its progress, and prints tables; -out also writes a page with plots. A full run takes about thirteen
minutes and needs the machine for itself; -quick takes less than 40 s. The exit status is 1 if a threshold is
missed, unless the run itself has measured why it cannot be reached.

With -url it measures a gateway that already runs, if it speaks OpenAI's API. Point that gateway at simulated
engines (-engines) if you can: then the capacity is known and no GPU is needed. The fleet of "colonnade up" serves
the model demo-chat and takes any key; unknown keys belong to one account.

Examples:
  colonnade-bench -quick
  colonnade-bench -scenario flood -gateways colonnade,haproxy -out /tmp/bench
  colonnade-bench -scenario load -quick -url http://127.0.0.1:8080/v1 -model demo-chat -key none
  colonnade-bench -url http://127.0.0.1:8080/v1 -model mine -key sk-1 -key sk-2 -key sk-3 \
    -engines 127.0.0.1:9001,127.0.0.1:9002 -out /tmp/bench

Scenarios:
%s

Flags:
`

// scenarioList names the scenarios, a line each.
func scenarioList() string {
	var out strings.Builder
	for _, c := range bench.Scenarios() {
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
func (o *options) run(ctx context.Context, out, notes io.Writer) (err error) {
	config, err := o.config(ctx, notes)
	if err != nil {
		return err
	}
	if err := o.checkFiles(); err != nil {
		return err
	}
	if config.Dir, err = os.MkdirTemp("", "colonnade-bench-"); err != nil {
		return fmt.Errorf("cannot make a directory for the gateways: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(config.Dir)) }()
	progress := &progressLine{to: notes, rewrite: isTerminal(notes)}
	config.Progress = progress.show
	report, err := bench.Run(ctx, config)
	progress.end()
	switch {
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		return errors.New("ended before all was measured: nothing is reported")
	case err != nil:
		return err
	}
	if err := o.deliver(report, out, notes); err != nil {
		return err
	}
	return o.verdict(report)
}

// deliver prints the report and writes its files.
func (o *options) deliver(report *bench.Report, out, notes io.Writer) error {
	if o.json == "-" {
		if err := bench.WriteJSON(out, report); err != nil {
			return err
		}
	} else {
		bench.WriteTable(out, report, bench.Screen{Width: 120, Colour: isTerminal(out) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"})
	}
	if o.json != "" && o.json != "-" {
		if err := writeFile(o.json, func(w io.Writer) error { return bench.WriteJSON(w, report) }); err != nil {
			return err
		}
		fmt.Fprintln(notes, "wrote", o.json)
	}
	if o.out != "" {
		files, err := bench.Save(report, o.out)
		if err != nil {
			return err
		}
		fmt.Fprintf(notes, "wrote %s and %s\n", files[0], count(len(files)-1, "more file"))
	}
	return nil
}

// verdict is an error if a mark was missed that could have been reached. A quick run is too rough to tell.
func (o *options) verdict(report *bench.Report) error {
	if why := nothingRan(report); why != "" {
		return errors.New("nothing was measured: " + why)
	}
	missed := slices.DeleteFunc(report.Missed(), func(m bench.ThresholdResult) bool { return m.Why != "" })
	if len(missed) == 0 || o.quick || !o.judge {
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

// count writes a number of things, in the plural if it is not one.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
