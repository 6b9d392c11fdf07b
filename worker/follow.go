package worker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"syscall"
	"time"

	"colonnade/discovery/engines"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
	"colonnade/worker/process"
)

// Times between questions.
const (
	startInterval  = 200 * time.Millisecond // while the engine has not answered
	failedInterval = time.Second            // at most, while it does not answer any more
	askInterval    = 10 * time.Second       // about its models
)

// following is how the time with one process of an engine went.
type following struct {
	well     time.Duration   // how long the engine was well
	incident *fleet.Incident // that is not in the worker's document yet
	err      error           // of an engine that the worker has not started: the URL is no engine
}

// follow follows an engine until its process has ended, or ctx.
func (w *Worker) follow(ctx context.Context, p *process.Process) (f following) {
	began := time.Now()
	running, cancel := whileRunning(ctx, p)
	defer cancel()
	hung := false
	switch f.err = w.awaitStart(running, p == nil); {
	case errors.Is(f.err, errStartTimeout):
		f.err, hung = nil, true
	case f.err == nil && running.Err() == nil:
		f.well, hung = w.watch(running, p != nil)
	}
	switch {
	case p == nil || ctx.Err() != nil:
	case hung:
		if err := p.Stop(w.c.StopTimeout); err != nil {
			w.c.Logger.Error("cannot end a hung engine", "error", err)
		}
	default:
		f.incident = &fleet.Incident{Kind: fleet.IncidentEngineExit, Detail: fmt.Sprintf("%s, %v after its start", p.Exit(), time.Since(began).Round(time.Second))}
	}
	return f
}

// whileRunning returns a context that ends with a process.
func whileRunning(ctx context.Context, p *process.Process) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if p != nil {
		go func() {
			defer cancel()
			select {
			case <-p.Exited():
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

var errStartTimeout = errors.New("the engine has not answered within -start-timeout")

// awaitStart is await within StartTimeout, for an engine that the worker has started.
func (w *Worker) awaitStart(ctx context.Context, runs bool) error {
	if runs || w.c.StartTimeout <= 0 {
		return w.await(ctx, runs)
	}
	limited, cancel := context.WithTimeoutCause(ctx, w.c.StartTimeout, errStartTimeout)
	defer cancel()
	if err := w.await(limited, false); err != nil || !errors.Is(context.Cause(limited), errStartTimeout) {
		return err
	}
	w.update(func(s *state) {
		s.addIncident(fleet.Incident{Kind: fleet.IncidentEngineHung, Detail: fmt.Sprintf("%v %v: %s", errStartTimeout, w.c.StartTimeout, s.waiting)})
		s.backoff = fmt.Sprintf("%v %v and is ended", errStartTimeout, w.c.StartTimeout)
	})
	return errStartTimeout
}

// await asks the engine what it is until it answers. The first answer of something that is no engine is an error, if it runs already.
func (w *Worker) await(ctx context.Context, runs bool) error {
	for {
		err := w.ask(ctx)
		unusable := (*engines.NotEngineError)(nil)
		switch {
		case err == nil || ctx.Err() != nil:
			return nil
		case runs && errors.As(err, &unusable):
			return unusable
		}
		runs = false
		w.update(func(s *state) { s.waiting = err.Error() })
		if !ctxtime.Sleep(ctx, startInterval) {
			return nil
		}
	}
}

// ask asks the engine what it is, whether it is well, and in which pool it belongs, and takes its answers. The error says what the worker waits
// for.
func (w *Worker) ask(ctx context.Context) error {
	q := w.question()
	e, err := q.Ask(ctx)
	if err != nil {
		return fmt.Errorf("waiting for %w", err)
	}
	health, err := w.health(e)
	if err != nil {
		return err
	}
	if err := q.Healthy(ctx, health.Path, health.Timeout.Std()); err != nil {
		return fmt.Errorf("waiting for %w", err)
	}
	pool, err := w.poolOf(ctx, e)
	if err != nil {
		return err
	}
	w.answered(e, pool)
	return nil
}

// answered takes what the engine has said.
func (w *Worker) answered(e *engines.Engine, pool string) {
	if !reflect.DeepEqual(e, w.question().Before) {
		for _, line := range e.Lines() {
			w.report("%s", line)
		}
	}
	w.update(func(s *state) { s.engine, s.worker.Engine.Pool, s.waiting = e, pool, "" })
}

// question returns what to ask.
func (w *Worker) question() engines.Question {
	w.mu.Lock()
	defer w.mu.Unlock()
	return engines.Question{URL: w.c.URL, Key: w.c.Key, Before: w.state.engine}
}

// health returns the health checks of the engine's endpoint.
func (w *Worker) health(e *engines.Engine) (fleet.Health, error) {
	endpoint, err := w.endpoint(e)
	if err != nil {
		return fleet.Health{}, err
	}
	return endpoint.Health, nil
}

// endpoint returns the engine's endpoint as a table would have it.
func (w *Worker) endpoint(e *engines.Engine) (*fleet.Endpoint, error) {
	d, _, err := w.c.place(w.c.Pool, "").Register(e)
	if err != nil {
		return nil, err
	}
	set := document.NewSet()
	if err := set.Put(d.Key, d.Value, 1); err != nil {
		return nil, fmt.Errorf("cannot register %s: %w", w.c.URL, err)
	}
	endpoint, ok := set.Noun(d.Key).(*fleet.Endpoint)
	if !ok {
		return nil, fmt.Errorf("cannot register %s: its document is not in force", w.c.URL)
	}
	return endpoint, nil
}

// poolOf returns the pool of the engine, which stays as it was found first.
func (w *Worker) poolOf(ctx context.Context, e *engines.Engine) (string, error) {
	w.mu.Lock()
	pool := w.state.worker.Engine.Pool
	w.mu.Unlock()
	if pool != "" {
		return pool, nil
	}
	for _, m := range e.Models {
		if w.c.Registry.PoolOf == nil || m.Base != "" {
			continue
		}
		pool, err := w.c.Registry.PoolOf(ctx, m.Name)
		if err != nil {
			return "", fmt.Errorf("cannot find the pool of the model %s: %w", m.Name, err)
		}
		if pool != "" {
			return pool, nil
		}
	}
	endpoint, err := w.endpoint(e)
	if err != nil {
		return "", err
	}
	return endpoint.Pool, nil
}

// watch asks an engine that has answered whether it is well, until ctx ends, or until it hangs and is owned: started by the worker. It returns how
// long the engine was well.
func (w *Worker) watch(ctx context.Context, owned bool) (well time.Duration, hung bool) {
	began, asked := time.Now(), time.Now()
	f := failure{hungAfter: w.c.HungAfter}
	for ctx.Err() == nil {
		q := w.question()
		health, err := w.health(q.Before)
		if err != nil { // it was checked when the engine was asked
			return 0, false
		}
		interval := health.Interval.Std()
		if f.failing() {
			interval = min(interval, failedInterval)
		}
		if !ctxtime.Sleep(ctx, interval) {
			break
		}
		at := time.Now()
		err = q.Healthy(ctx, health.Path, health.Timeout.Std())
		if ctx.Err() != nil {
			break
		}
		f.checked(at, time.Now(), err)
		if w.judge(&f, owned) && owned {
			return f.since.Sub(began), true
		}
		if err == nil && time.Since(asked) >= askInterval {
			asked = time.Now()
			w.askAgain(ctx, q)
		}
	}
	return time.Since(began), false
}

// askAgain takes what the engine says now, if it says something.
func (w *Worker) askAgain(ctx context.Context, q engines.Question) {
	e, err := q.Ask(ctx)
	if err != nil {
		w.c.Logger.Debug("the engine has not said what it is", "error", err)
		return
	}
	if _, err := w.health(e); err != nil {
		w.c.Logger.Warn("what the engine says cannot be registered", "error", err)
		return
	}
	w.mu.Lock()
	pool := w.state.worker.Engine.Pool
	w.mu.Unlock()
	w.answered(e, pool)
}

// failure is for how long an engine has not answered its health path.
type failure struct {
	hungAfter time.Duration // 0 = never
	since     time.Time     // zero = it answers
	now       time.Time
	err       error
	reported  bool // that it hangs, or listens no more
}

func (f *failure) failing() bool { return !f.since.IsZero() }

// checked takes the result of a check.
func (f *failure) checked(began, ended time.Time, err error) {
	f.now, f.err = ended, err
	switch {
	case err == nil:
		f.since, f.reported = time.Time{}, false
	case !f.failing():
		f.since = began
	}
}

// out reports whether the engine is to get no requests.
func (f *failure) out() bool {
	after := f.hungAfter / 2
	if f.hungAfter == 0 {
		after = DefaultHungAfter / 2
	}
	return f.failing() && (f.refused() || f.now.Sub(f.since) >= after)
}

// refused reports whether the engine does not listen any more.
func (f *failure) refused() bool { return errors.Is(f.err, syscall.ECONNREFUSED) }

func (f *failure) hung() bool {
	return f.failing() && f.hungAfter > 0 && f.now.Sub(f.since) >= f.hungAfter
}

// detail returns what is wrong, and for how long if that is long.
func (f *failure) detail() string {
	if lasted := f.now.Sub(f.since).Round(time.Second); lasted > 0 {
		return fmt.Sprintf("%v, for %v", f.err, lasted)
	}
	return f.err.Error()
}

// judge takes the engine out, or back in, and reports whether it hangs.
func (w *Worker) judge(f *failure, owned bool) (hung bool) {
	hung = f.hung()
	kind := ""
	switch {
	case f.reported:
	case hung:
		kind = fleet.IncidentEngineHung
	case f.refused() && !owned: // the end of a process that the worker has started is noticed as such
		kind = fleet.IncidentEngineExit
	}
	w.update(func(s *state) {
		s.failing = ""
		if f.out() {
			s.failing = f.err.Error()
		}
		if kind != "" {
			f.reported = true
			s.addIncident(fleet.Incident{Kind: kind, Detail: f.detail()})
		}
		if hung && owned {
			s.backoff = fmt.Sprintf("the engine hangs and is ended: %v", f.err)
		}
	})
	return hung
}
