package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"colonnade/discovery/engines"
	"colonnade/internal/ctxtime"
	"colonnade/worker/process"
)

// run starts the engine again and again until ctx ends, or watches one, and takes it out at the end.
func (w *Worker) run(ctx context.Context) error {
	var backoff process.Backoff
	for first := true; ; first = false {
		p, err := w.start(ctx, first)
		if err != nil && first {
			return err
		}
		var f following
		if err == nil {
			f = w.follow(ctx, p)
			if ctx.Err() != nil || p == nil {
				return errors.Join(f.err, w.leave(p))
			}
		}
		switch {
		case err == nil && !exited(ctx, p): // it was killed, and does not end
			return w.leave(p)
		case !w.c.Restart:
			return w.lost(p, f)
		case !w.pause(ctx, p, f, err, backoff.Next(f.well)):
			w.update(func(s *state) { s.draining = true })
			return nil
		}
	}
}

// start starts the engine, if there is a command: nil if not.
func (w *Worker) start(ctx context.Context, first bool) (*process.Process, error) {
	if len(w.c.Command) == 0 {
		return nil, nil
	}
	if !first { // else it has just been checked
		if err := w.checkFree(ctx); err != nil {
			return nil, err
		}
	}
	w.report("starting the engine: %s", strings.Join(withoutSecrets(w.c.Command), " "))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.aborted {
		return nil, errAborted
	}
	p, err := process.Start(process.Config{Command: w.c.Command, KillCommand: w.c.KillCommand, Prefix: enginePrefix, Stdout: w.c.Stdout, Stderr: w.c.Stderr})
	if err != nil {
		return nil, err
	}
	w.running = p
	w.updateLocked(func(s *state) {
		s.backoff, s.failing, s.waiting = "", "", "the engine has been started"
		if !first {
			s.worker.Engine.Restarts++
		}
	})
	return p, nil
}

// exited waits for the end of a process, until ctx ends. One that hangs in a driver may outlive SIGKILL.
func exited(ctx context.Context, p *process.Process) bool {
	select {
	case <-p.Exited():
		return true
	case <-ctx.Done():
		return p.HasExited()
	}
}

// freeTime bounds the question whether the engine's URL is free.
const freeTime = 2 * time.Second

// checkFree returns an error if something serves the URL of an engine that is to be started. The engine would fail by it, and the worker would take
// the other for its own.
func (w *Worker) checkFree(ctx context.Context) error {
	if len(w.c.Command) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, freeTime)
	defer cancel()
	e, err := w.question().Ask(ctx)
	unusable := (*engines.NotEngineError)(nil)
	var what string
	switch {
	case err == nil:
		what = e.String()
	case errors.As(err, &unusable):
		what = unusable.Answer
	default:
		return nil
	}
	return fmt.Errorf("%s is served by another process already (%s): stop that one or choose another port; to register an engine that runs already, leave the command out",
		w.c.URL, what)
}

// seenTime is how long an incident stands in the worker's document before that goes: servers take changes that come together as one, and would
// not see it.
const seenTime = 2 * time.Second

// awaitSeen waits until servers have seen the newest document, with an incident, or may not see it for long.
func (w *Worker) awaitSeen() {
	stored, cancel := context.WithTimeout(w.lifetime, firstStored)
	defer cancel()
	if w.c.Registry.Stored(stored) == nil {
		ctxtime.Sleep(w.lifetime, seenTime)
	}
}

// lost ends the worker of an engine that has ended and is not started again.
func (w *Worker) lost(p *process.Process, f following) error {
	w.gone(f, fmt.Sprintf("the engine has ended (%s)", p.Exit()))
	w.awaitSeen()
	<-p.Ended()
	return exitError("the engine has ended", p.Exit())
}

// pause waits until the engine is to be started again, and reports whether it is. failed is why it was not started; nil = it has ended.
func (w *Worker) pause(ctx context.Context, p *process.Process, f following, failed error, d time.Duration) bool {
	if failed != nil {
		w.gone(f, fmt.Sprintf("%v; it is started again after %v", failed, d))
		return ctxtime.Sleep(ctx, d)
	}
	w.gone(f, fmt.Sprintf("the engine has ended (%s); it is started again after %v", p.Exit(), d))
	<-p.Ended()
	w.mu.Lock()
	w.running = nil
	w.mu.Unlock()
	return ctxtime.Sleep(ctx, d)
}

// gone takes an engine out that does not run any more.
func (w *Worker) gone(f following, reason string) {
	w.update(func(s *state) {
		s.backoff = reason
		if f.incident != nil {
			s.addIncident(*f.incident)
		}
	})
}
