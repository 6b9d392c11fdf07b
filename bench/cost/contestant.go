package cost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"colonnade/bench/child"
)

// contestant is one way from clients to the engine.
type contestant struct {
	Contestant
	realtime bool // it carries WebSocket sessions in the scenario of messages, and nothing else if it is bare
	bare     bool
	start    starter
}

// starter starts a contestant in a directory of its own.
type starter func(ctx context.Context, p *place, dir string) (*running, error)

// Contestant says what a contestant is.
type Contestant struct{ Name, About string }

// place is what all contestants of a run share.
type place struct {
	dir      string   // scratch directory
	programs string   // directory of entry, colo and colonnade
	engines  []string // addresses of the engine
	env      []string // of Colonnade's nodes, beside that of this process
	key      string   // API key
}

// elsewhere returns a start in a place that differs.
func elsewhere(start starter, differ func(*place)) starter {
	return func(ctx context.Context, p *place, dir string) (*running, error) {
		q := *p
		differ(&q)
		return start(ctx, &q, dir)
	}
}

// node returns the command of a node of Colonnade.
func (p *place) node(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.programs, program), args...)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// running is a contestant that serves.
type running struct {
	name    string
	address string
	nodes   []node // of Colonnade: the entry last
	stops   []func() error
	started []*child.Process
}

// node is one of the nodes of a contestant.
type node struct {
	name string
	pids []int
}

// pids returns the processes of all nodes.
func (r *running) pids() (all []int) {
	for _, n := range r.nodes {
		all = append(all, n.pids...)
	}
	return all
}

// stop ends all processes, the last started first.
func (r *running) stop() error {
	var all []error
	for i := len(r.stops) - 1; i >= 0; i-- {
		all = append(all, r.stops[i]())
	}
	return errors.Join(all...)
}

// add adds a process as a node, which ends by a signal.
func (r *running) add(name string, p *child.Process, by os.Signal) {
	r.nodes = append(r.nodes, node{name, []int{p.PID()}})
	r.own(p, by)
}

// own adds a process that is no node.
func (r *running) own(p *child.Process, by os.Signal) {
	r.started = append(r.started, p)
	r.stops = append(r.stops, func() error { return p.Stop(by, patience) })
}

const (
	patience     = 10 * time.Second // with a process that is to end
	startTimeout = time.Minute
	startPoll    = 2 * time.Millisecond
)

// launch starts a contestant in a directory of its own and returns when it serves.
func (p *place) launch(ctx context.Context, c *contestant) (r *running, err error) {
	dir, err := os.MkdirTemp(p.dir, "contestant-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory: %w", err)
	}
	r, err = c.start(ctx, p, dir)
	if err == nil && !(c.bare && c.realtime) {
		err = p.await(ctx, r)
	}
	if err != nil {
		if r != nil {
			err = errors.Join(err, r.stop())
		}
		return nil, fmt.Errorf("cannot start %s: %w", c.Name, err)
	}
	r.name = c.Name
	r.stops = append([]func() error{func() error { return os.RemoveAll(dir) }}, r.stops...)
	return r, nil
}

// await asks until a request is served.
func (p *place) await(ctx context.Context, r *running) error {
	request := chatRequest(p.key, "m", nil)
	for deadline := time.Now().Add(startTimeout); ; {
		c := caller{address: r.address}
		err := c.ask(request)
		c.close()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("no answer within %s: %w", startTimeout, err)
		}
		for _, process := range r.started {
			select {
			case <-process.Ended():
				return process.Failure()
			default:
			}
		}
		time.Sleep(startPoll)
	}
}

// writeFile writes a file of a contestant.
func writeFile(dir, name, text string) (path string, err error) {
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("cannot write %s: %w", name, err)
	}
	return path, nil
}
