package worker

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"colonnade/fleet"
	"colonnade/internal/ctxtime"
	"colonnade/worker/process"
)

// leave takes the engine out, waits until no request is in flight on it, and stops it if the worker has started it. The error is an *ExitError,
// unless the engine has ended as it was asked to.
func (w *Worker) leave(p *process.Process) error {
	w.update(func(s *state) { s.draining = true })
	w.drain(p)
	if p == nil {
		return nil
	}
	if p.HasExited() { // by itself
		w.endedWhileDrained(p)
		<-p.Ended()
		return exitError("the engine has ended by itself while it was drained", p.Exit())
	}
	w.report("stopping the engine, within %v", w.c.StopTimeout)
	if err := p.Stop(w.c.StopTimeout); err != nil {
		return err
	}
	switch exit := p.Exit(); exit.Signal {
	case syscall.SIGTERM:
		return nil
	case syscall.SIGKILL:
		return exitError(fmt.Sprintf("the engine has not ended within -stop-timeout %v and was killed", w.c.StopTimeout), exit)
	default:
		return exitError("the engine has ended", exit)
	}
}

// endedWhileDrained records the end of an engine that was not asked to end.
func (w *Worker) endedWhileDrained(p *process.Process) {
	w.mu.Lock()
	aborted := w.aborted
	w.mu.Unlock()
	if aborted {
		return
	}
	w.update(func(s *state) {
		s.addIncident(fleet.Incident{Kind: fleet.IncidentEngineExit, Detail: fmt.Sprintf("%s, while it was drained", p.Exit())})
	})
	w.awaitSeen()
}

func exitError(what string, exit process.Exit) error {
	if exit.Status == 0 {
		return nil
	}
	return &ExitError{exit.Status, fmt.Sprintf("%s (%s)", what, exit)}
}

// inFlightInterval is the time between two questions whether requests are left.
const inFlightInterval = 200 * time.Millisecond

// drain waits until no server of the colo has a request on the engine, at most for Config.Drain.
func (w *Worker) drain(p *process.Process) {
	w.mu.Lock()
	registered := w.last.Endpoint.Key != ""
	w.mu.Unlock()
	if !registered {
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.lifetime, w.c.Drain)
	defer cancel()
	ctx, cancel = whileRunning(ctx, p)
	defer cancel()
	go func() { // a registry that has ended answers nothing any more
		select {
		case <-w.registryEnded:
			cancel()
		case <-ctx.Done():
		}
	}()
	left, shown := w.left(ctx), ""
	for ; left != "" && ctxtime.Sleep(ctx, inFlightInterval); left = w.left(ctx) {
		if left != shown {
			w.report("draining: %s", left)
			shown = left
		}
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	switch {
	case w.refused(): // it is not registered, so no server will send it requests
	case left == "":
		w.report("drained in %v", took)
	case p == nil || !p.HasExited():
		w.report("not drained after %v: %s", took, left)
	}
}

// left says which requests may be left, once the servers know that the engine is out; "" if there is none.
func (w *Worker) left(ctx context.Context) string {
	if err := w.c.Registry.Stored(ctx); err != nil {
		return fmt.Sprintf("the colo does not know yet that the engine is out: %v", err)
	}
	n, err := w.c.Registry.InFlight(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("cannot find out how many requests are in flight: %v", err)
	case n == 0:
		return ""
	case n == 1:
		return "1 request is in flight"
	}
	return fmt.Sprintf("%d requests are in flight", n)
}

// refused reports whether the registry has ended.
func (w *Worker) refused() bool {
	select {
	case <-w.registryEnded:
		return true
	default:
		return false
	}
}
