package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v3"

	"colonnade/admin"
	"colonnade/cmd/internal/command"
	"colonnade/internal/ctxtime"
	"colonnade/problems"
	"colonnade/reasons"
)

// statusCommand is one run of status.
type statusCommand struct {
	query poolQuery
	admin string // addresses, separated by commas; empty: the servers that are registered in etcd
	json  bool
	watch bool

	showWorkers bool
	workers     *workersState // with showWorkers, instead of state and views

	poller *poller
	state  *fleetState
	views  []poolView // of its pools
	out    io.Writer
}

func newStatus() *cli.Command {
	var store store
	var c statusCommand
	return &cli.Command{
		Name: "status", Usage: "Show who holds slots and who waits, in the pools of each colo",
		Flags: []cli.Flag{
			store.etcdFlag(),
			&cli.StringFlag{Name: "pool", Destination: &c.query.pool, Usage: "only this `POOL`"},
			&cli.StringFlag{Name: "colo", Destination: &c.query.colo, Usage: "only this `COLO`"},
			adminFlag(&c.admin),
			&cli.BoolFlag{Name: "workers", Destination: &c.showWorkers, Usage: "show the machines with engines of colonnade register, their GPUs and engines, instead of pools"},
			&cli.IntFlag{Name: "accounts", Value: 10, Destination: &c.query.accounts, Validator: checkAccounts,
				Usage: fmt.Sprintf("largest `NUMBER` of accounts to show of each pool, at most %d", admin.MaxAccounts)},
			&cli.BoolFlag{Name: "json", Destination: &c.json, Usage: "print JSON; with -watch, a line each time"},
			&cli.BoolFlag{Name: "watch", Destination: &c.watch, Usage: "show it again each second, until Ctrl-C"},
		},
		Description: `Shows the errors of the fleet and the captures of content, then a line for each pool, the colo
servers, and of each pool its endpoints and accounts. Of other warnings, it shows the number:
config status lists them. The pools are those of the colo servers that are registered in etcd,
or of the processes that -admin names.

With -workers, it shows the machines with engines that colonnade register runs: the GPUs with
memory, utilization, power and temperature, and the engines with their states. Figures are live
where the admin listener of a worker can be reached. -admin may name a worker too.

` + exitStatuses + `

Examples:
  colonnade status
  colonnade status -watch -colo ams
  colonnade status -pool llama-3.1-8b -accounts 50
  colonnade status -admin 127.0.0.1:9080
  colonnade status -workers -watch
  colonnade status -json | jq '.nodes[].pools[] | {colo, pool, queued}'`,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			c.out = cmd.Writer
			var err error
			if c.poller, err = store.poller(c.admin, &c.query); err != nil {
				return command.WithStatus(command.StatusUnknown, err)
			}
			defer c.poller.close()
			if c.watch {
				return c.runWatch(ctx)
			}
			return c.runOnce(ctx)
		},
	}
}

// exitStatuses is the part of the help of the commands that look for problems.
const exitStatuses = `The exit status is 0 if there is no error (warnings do not count), 1 if errors were found, and
2 if the command could not find out: etcd does not answer, or the command line is wrong.`

// adminFlag is the flag of commands that can do without etcd.
func adminFlag(addresses *string) cli.Flag {
	return &cli.StringFlag{Name: "admin", Destination: addresses, Validator: checkAddresses,
		Usage: "`ADDRESSES` of admin listeners to ask instead of those that are registered in etcd, separated by commas"}
}

func checkAccounts(n int) error {
	if n < 0 || n > admin.MaxAccounts {
		return fmt.Errorf("must be 0 to %d", admin.MaxAccounts)
	}
	return nil
}

func checkAddresses(addresses string) error {
	for address := range strings.SplitSeq(addresses, ",") {
		if err := checkAddress(address); err != nil {
			return err
		}
	}
	return nil
}

// poll updates the state, which has an error if nothing matches the selection.
func (c *statusCommand) poll(ctx context.Context) error {
	if c.showWorkers {
		s, err := c.poller.pollWorkers(ctx, &c.query)
		if err == nil {
			c.workers = s
		}
		return err
	}
	s, err := c.poller.poll(ctx)
	if err != nil {
		return err
	}
	found := slices.ContainsFunc(s.Nodes, func(n nodeState) bool { return n.Error != "" || len(n.Pools) > 0 })
	switch q := c.query; {
	case found || slices.ContainsFunc(s.Problems, explainsNothing):
	case len(s.Nodes) == 0 && q.colo == "":
		s.addError(reasons.NothingSelected, "no colo server is registered")
	case q.colo != "" || q.pool != "":
		s.addError(reasons.NothingSelected, fmt.Sprintf("no colo server has a pool that matches -colo %q -pool %q", q.colo, q.pool))
	}
	c.state, c.views = s, poolViews(s, c.views)
	return nil
}

// explainsNothing reports whether a problem may be why there is no pool to show.
func explainsNothing(p problems.Problem) bool {
	ofModels := []string{reasons.StoreEmpty, reasons.NoModel, reasons.ModelWithoutEndpoint, reasons.ModelWithoutRoute}
	return p.Severity == problems.SeverityError && !slices.Contains(ofModels, p.Kind)
}

// addError adds a problem of severity error to those of a state.
func (s *fleetState) addError(kind, text string) {
	l := &problems.List{}
	l.Add(s.Problems...)
	l.Errorf(kind, "", "%s", text)
	s.Problems = l.All()
}

// runOnce polls once, and fails if anything is wrong.
func (c *statusCommand) runOnce(ctx context.Context) error {
	if err := c.poll(ctx); err != nil {
		return command.WithStatus(command.StatusUnknown, err)
	}
	if err := c.print(); err != nil {
		return err
	}
	if c.showWorkers {
		return (&fleetState{Problems: c.workers.Problems}).err()
	}
	return c.state.err()
}

func (c *statusCommand) print() error {
	if c.json && c.showWorkers {
		return writeJSON(c.out, c.workers, c.watch)
	}
	if c.json {
		return writeJSON(c.out, c.state, c.watch)
	}
	return show(c.out, c.draw)
}

// watchInterval is the time between two polls of -watch.
const watchInterval = time.Second

// Escape sequences of terminals.
const (
	alternateScreen = "\x1b[?1049h\x1b[?25l" // the shell's screen stays as it is; no cursor
	shellScreen     = "\x1b[?25h\x1b[?1049l"
	cursorHome      = "\x1b[H"
	eraseLineEnd    = "\x1b[K"
	eraseBelow      = "\x1b[J"
)

// runWatch polls until ctx is done. The last state stays on the terminal.
func (c *statusCommand) runWatch(ctx context.Context) error {
	if err := c.poll(ctx); err != nil {
		return unlessDone(ctx, err)
	}
	if screenOf(c.out).redraw && !c.json {
		_, _ = io.WriteString(c.out, alternateScreen)
		defer func() {
			_, _ = io.WriteString(c.out, shellScreen)
			_ = c.print()
		}()
	}
	for {
		began := time.Now()
		if err := c.redraw(); err != nil {
			return err
		}
		if !ctxtime.Sleep(ctx, watchInterval-time.Since(began)) {
			return nil
		}
		if err := c.poll(ctx); err != nil {
			return unlessDone(ctx, err)
		}
	}
}

// unlessDone returns err, unless the command was asked to stop.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// redraw prints the state in place of the one before. Lines that do not fit the terminal are left out, and counted.
func (c *statusCommand) redraw() error {
	screen := screenOf(c.out)
	if c.json || !screen.redraw {
		return c.print()
	}
	c.draw(screen)
	lines := strings.Split(strings.TrimRight(screen.String(), "\n"), "\n")
	if room := max(screen.height-1, 2); len(lines) > room {
		more := fmt.Sprintf("(%d more lines: -pool and -colo show less; Ctrl-C shows all)", len(lines)-room+1)
		lines = append(lines[:room-1], string(screen.paint(text.Faint, more)))
	}
	_, err := io.WriteString(c.out, cursorHome+strings.Join(lines, eraseLineEnd+"\n")+eraseLineEnd+eraseBelow)
	return err
}
