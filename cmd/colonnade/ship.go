package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v3"
	"golang.org/x/sync/errgroup"

	"colonnade/analytics/ship"
	"colonnade/analytics/sinks"
	"colonnade/analytics/sinks/heavy"
	"colonnade/analytics/sinks/light"
	"colonnade/cmd/internal/command"
	"colonnade/internal/ctxtime"
)

// shipFlush is how long events that are there are still sent after Ctrl-C.
const shipFlush = 5 * time.Second

// shipping is the settings of the command.
type shipping struct {
	dir     string
	urls    []string
	once    bool
	giveUp  time.Duration
	every   time.Duration
	admin   string // address; empty = none
	out     io.Writer
	logger  *slog.Logger
	shipped []*ship.Shipper
	nodes   []string // of each of shipped
}

func newShip() *cli.Command {
	var s shipping
	return &cli.Command{
		Name: "ship", Usage: "Send the events of the nodes of a data directory to sinks",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "data-dir", Destination: &s.dir, Usage: "`DIRECTORY` of the nodes' flag -data-dir (required)"},
			&cli.StringSliceFlag{Name: "sink", Destination: &s.urls, Usage: "`URL` of a sink; may be repeated (required)"},
			&cli.BoolFlag{Name: "once", Destination: &s.once, Usage: "end when all events have been sent that are there"},
			&cli.DurationFlag{Name: "give-up", Value: time.Minute, Destination: &s.giveUp, Usage: "with -once: end when a sink has taken nothing for this long"},
			&cli.DurationFlag{Name: "progress", Value: 10 * time.Second, Destination: &s.every, Usage: "time between two lines of progress"},
			&cli.StringFlag{Name: "admin", Destination: &s.admin, Usage: "`ADDRESS` on which to serve /metrics and /health, such as 127.0.0.1:9480; none by default"},
		},
		Description: `The position of each sink is kept below DIRECTORY/ship by the sink's name, so a run begins where
the last one has ended. The command may run beside the nodes, also while they ship themselves, if
the names of the sinks differ. It ends with 0 when all was sent, and with 1 when events were
refused, cannot be read, or a sink has not taken them.

Examples:
  colonnade ship -data-dir var -sink 'postgres://colonnade@db/events?credential=env:PGPASSWORD'
  colonnade ship -data-dir var -once -sink file:events.jsonl`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			s.out, s.logger = cmd.Writer, slog.New(slog.NewTextHandler(cmd.ErrWriter, nil))
			return s.run(ctx)
		},
	}
}

// run ships until ctx is done, or with once until everything is sent.
func (s *shipping) run(ctx context.Context) (err error) {
	if s.dir == "" {
		return errors.New("flag -data-dir is missing: the directory that the nodes were given as -data-dir (or COLONNADE_DATA_DIR)")
	}
	if len(s.urls) == 0 {
		return errors.New("flag -sink is missing: the URL of where events go, such as file:events.jsonl or postgres://user@db/colonnade")
	}
	nodes, err := os.ReadDir(filepath.Join(s.dir, "events"))
	if err != nil {
		return fmt.Errorf("-data-dir %s: no node keeps events there, or not on this machine: %w", s.dir, err)
	}
	defer func() {
		for _, shipper := range s.shipped {
			err = errors.Join(err, shipper.Close())
		}
	}()
	specs, err := s.parse()
	if err != nil {
		return err
	}
	for _, spec := range specs {
		var shared *sharedSink
		for _, node := range nodes {
			if node.IsDir() {
				if shared, err = s.open(spec, node.Name(), shared); err != nil {
					return err
				}
			}
		}
	}
	return s.serveAndShip(ctx)
}

// parse reads the flags -sink.
func (s *shipping) parse() (all []*sinks.Spec, err error) {
	for _, raw := range sinks.Join(s.urls) {
		spec, err := sinks.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("-sink: %w", err)
		}
		if slices.ContainsFunc(all, func(other *sinks.Spec) bool { return other.Name == spec.Name }) {
			return nil, fmt.Errorf("-sink: two sinks have the name %s: give one of them another by the setting name=…", spec.Name)
		}
		all = append(all, spec)
	}
	return all, nil
}

// open opens a sink for the events of a node. The nodes of a file share its sink: the one before, if there is one.
func (s *shipping) open(spec *sinks.Spec, node string, before *sharedSink) (*sharedSink, error) {
	env := sinks.Environment{Node: node, DataDir: s.dir, Logger: s.logger.With("node", node)}
	if spec.Credential != "" {
		env.Credential = func() (string, error) { return sinks.ReadCredential(spec.Credential) }
		if _, err := env.Credential(); err != nil {
			return before, fmt.Errorf("-sink: sink %s: %w", spec.Name, err)
		}
	}
	sink, before, err := openSink(spec, env, before)
	if err != nil {
		return before, fmt.Errorf("-sink: %w", err)
	}
	config := light.Config(spec, env, shipFlush)
	config.Once = s.once
	shipper, err := ship.Open(config, sink)
	if err != nil {
		return before, errors.Join(err, sink.Close())
	}
	s.shipped, s.nodes = append(s.shipped, shipper), append(s.nodes, node)
	return before, nil
}

// openSink opens a sink, or shares that of the node before.
func openSink(spec *sinks.Spec, env sinks.Environment, before *sharedSink) (ship.Sink, *sharedSink, error) {
	if before != nil {
		return before.share(), before, nil
	}
	sink, err := heavy.Open(spec, env)
	if err != nil || spec.Scheme.Name != "file" {
		return sink, nil, err
	}
	shared := &sharedSink{sink: sink}
	return shared.share(), shared, nil
}

// ship runs all shippers.
func (s *shipping) ship(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var running errgroup.Group
	for _, shipper := range s.shipped {
		running.Go(func() error { return shipper.Run(work) })
	}
	var watching errgroup.Group
	watched, ended := context.WithCancel(context.Background())
	watching.Go(func() error { return s.watch(watched, cancel) })
	err := running.Wait()
	ended()
	return errors.Join(err, watching.Wait(), s.result(ctx))
}

// watch prints the progress, and with once gives up on sinks that take nothing.
func (s *shipping) watch(ctx context.Context, giveUp context.CancelFunc) error {
	var last uint64
	moved, printed := time.Now(), time.Now()
	for ctxtime.Sleep(ctx, 100*time.Millisecond) {
		done := s.done()
		if now := time.Now(); done != last {
			last, moved = done, now
		} else if s.once && now.Sub(moved) > s.giveUp {
			giveUp()
			return nil
		}
		if time.Since(printed) >= s.every {
			printed = time.Now()
			s.print()
		}
	}
	s.print()
	return nil
}

// done returns how many events need no further attention, so that a change of it is progress.
func (s *shipping) done() (n uint64) {
	for _, shipper := range s.shipped {
		stats := shipper.Stats()
		n += stats.Shipped + stats.Filtered + stats.Rejected
	}
	return n
}

// print writes a line for each node and sink.
func (s *shipping) print() {
	for i, shipper := range s.shipped {
		stats := shipper.Stats()
		line := fmt.Sprintf("%s → %s: %s shipped, %d to go", s.nodes[i], stats.Name, count(int(stats.Shipped), "event"), stats.LagEvents)
		if stats.LagEvents > 0 {
			line += ", the oldest since " + brief(seconds(stats.LagSeconds))
		}
		for _, other := range []struct {
			n    uint64
			text string
		}{{stats.Filtered, "left out by the filter"}, {stats.Rejected, "refused by the sink"}, {stats.Dropped, "dropped before they were shipped"}, {stats.Corrupt, "corrupt"}} {
			if other.n > 0 {
				line += fmt.Sprintf(", %d %s", other.n, other.text)
			}
		}
		if stats.Failing != "" {
			line += "; failing: " + command.Printable(stats.Failing)
		}
		if stats.Unreadable != "" {
			line += "; " + command.Printable(stats.Unreadable)
		}
		fmt.Fprintln(s.out, line)
	}
}

// result returns what was not sent although it was to be.
func (s *shipping) result(ctx context.Context) error {
	var failed []error
	for i, shipper := range s.shipped {
		stats := shipper.Stats()
		if stats.Rejected > 0 {
			failed = append(failed, fmt.Errorf("sink %s refused %s of node %s: %s", stats.Name, count(int(stats.Rejected), "event"), s.nodes[i], stats.LastRejected))
		}
		switch {
		case !s.once || stats.LagEvents == 0:
		case ctx.Err() != nil:
			failed = append(failed, fmt.Errorf("ended by a signal before sink %s had taken %s of node %s: the next run sends them", stats.Name, count(int(stats.LagEvents), "event"), s.nodes[i]))
		case stats.Failing != "":
			failed = append(failed, fmt.Errorf("sink %s has not taken %s of node %s: %s", stats.Name, count(int(stats.LagEvents), "event"), s.nodes[i], stats.Failing))
		}
		if stats.Unreadable != "" {
			failed = append(failed, fmt.Errorf("sink %s lacks events of node %s: %s", stats.Name, s.nodes[i], stats.Unreadable))
		}
	}
	return errors.Join(failed...)
}
