// Command colonnade-gpus prints what the GPUs of this machine do, as lines of JSON. It is the only program that links NVIDIA's management
// library, whose calls may hang or end the process: colonnade register runs it as a child, and outlives it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/worker/gpu"
	"colonnade/worker/gpu/nvml"
)

func main() {
	if err := newRoot().Run(context.Background(), os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "colonnade-gpus:", err)
		os.Exit(1)
	}
}

// shortest is the shortest time between two readings: more often, the driver itself would become a load.
const shortest = 10 * time.Millisecond

func newRoot() *cli.Command {
	var library string
	var interval time.Duration
	var once bool
	return &cli.Command{
		Name: "colonnade-gpus", Usage: "Print what the GPUs of this machine do, as lines of JSON", Version: version(),
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "interval", Value: 5 * time.Second, Destination: &interval, Usage: "`TIME` between two readings"},
			&cli.StringFlag{Name: "library", Destination: &library,
				Usage: "`PATH` of NVML, which the driver brings along; default: libnvidia-ml.so.1, wherever the dynamic linker finds it"},
			&cli.BoolFlag{Name: "once", Destination: &once, Usage: "print one reading as a table, and end"},
		},
		Description: `colonnade register runs this program. It ends when its standard input ends.

Examples:
  colonnade-gpus -once
  colonnade-gpus | jq .`,
		Action: func(_ context.Context, c *cli.Command) error {
			if n := c.Args().First(); n != "" {
				return fmt.Errorf("argument %q: there are only flags", n)
			}
			if interval < shortest {
				return fmt.Errorf("flag -interval: %v is too short; at least %v", interval, shortest)
			}
			if once {
				return printOnce(os.Stdout, library)
			}
			go endWithInput(os.Stdin)
			return follow(&printer{to: os.Stdout}, library, interval)
		},
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// endWithInput ends the process with its standard input, that is with its parent, also while a call of the driver hangs.
func endWithInput(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	os.Exit(0)
}

// follow prints readings and events until the output cannot be written.
func follow(out *printer, library string, interval time.Duration) error {
	driver, err := nvml.Open(library)
	if err != nil {
		return out.print(gpu.Line{Reading: &gpu.Reading{Time: time.Now(), None: err.Error()}})
	}
	failed := make(chan error, 1)
	go func() { failed <- followEvents(out, driver, interval) }()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		reading := driver.Read()
		if err := out.print(gpu.Line{Reading: &reading}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case err := <-failed:
			if err != nil {
				return err
			}
			failed = nil // there are no events
			<-tick.C
		}
	}
}

// followEvents prints events until there are none any more, or the output cannot be written.
func followEvents(out *printer, driver *nvml.Driver, interval time.Duration) error {
	for {
		event, ok, err := driver.Wait(interval)
		switch {
		case errors.Is(err, nvml.ErrNoEvents):
			return nil // the readings go on, and say it
		case err != nil:
			time.Sleep(interval)
			continue
		}
		if !ok {
			continue
		}
		if err := out.print(gpu.Line{Event: &event}); err != nil {
			return err
		}
	}
}
