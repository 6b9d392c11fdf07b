package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"colonnade/admin"
	"colonnade/fleet"
	"colonnade/worker/process"
)

// Worker is the process beside one engine.
type Worker struct {
	c Config

	lifetime      context.Context // ends after the engine, when the documents are to go; set by Run
	background    sync.WaitGroup  // goroutines that end with lifetime
	registryEnded chan struct{}   // is closed when Run of the registry has returned

	reporting sync.Mutex // is held while Config.Report is called

	mu      sync.Mutex // guards the fields below, and keeps what the registry gets in order
	state   state
	last    Registration     // that the registry has got
	running *process.Process // nil = none
	aborted bool             // no engine is started any more
}

// New returns a worker. It does nothing before Run. The error names the setting that is wrong.
func New(c Config) (*Worker, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	boot := make([]byte, 8)
	_, _ = rand.Read(boot) // never fails
	w := &Worker{c: c, registryEnded: make(chan struct{})}
	w.state.waiting = "it has not been asked yet"
	w.state.worker = fleet.Worker{
		Node: c.Node, Colo: c.Colo, Boot: hex.EncodeToString(boot), Machine: c.Machine, Version: c.Version,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol},
		Engine:   fleet.WorkerEngine{Endpoint: c.ID, Pool: c.Pool, URL: c.URL},
	}
	if c.Admin != nil {
		w.state.worker.Admin = cmp.Or(c.AdminAddress, c.Admin.Addr().String())
	}
	return w, nil
}

// firstStored is how long the start of the engine waits for the first documents to be stored, so that a registry that refuses them does not
// cost the load of a model.
const firstStored = 2 * time.Second

// Run starts the engine, or watches one, until ctx ends; then it takes the engine out and stops it. The error is an *ExitError if the engine
// has ended and is not started again, a *process.StartError if its command cannot be run, or says what was wrong from the start. Run is called
// once.
func (w *Worker) Run(ctx context.Context) error {
	life, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var end context.CancelFunc
	w.lifetime, end = context.WithCancel(context.WithoutCancel(ctx))
	w.background.Go(w.serveAdmin)
	if w.c.GPUs.Run != nil {
		w.background.Go(func() { w.c.GPUs.Run(w.lifetime, w.process, w.gpusReported) })
	}
	var refused error
	w.background.Go(func() {
		defer close(w.registryEnded)
		if refused = w.c.Registry.Run(w.lifetime); refused != nil {
			cancel(refused)
		}
	})
	err := w.live(life)
	end()
	w.background.Wait()
	if refused != nil {
		return fmt.Errorf("cannot register the engine: %w", refused)
	}
	return err
}

// live runs the engine, after the first documents.
func (w *Worker) live(ctx context.Context) error {
	if err := w.checkFree(ctx); err != nil {
		return err
	}
	w.update(func(*state) {})
	stored, cancel := context.WithTimeout(ctx, firstStored)
	defer cancel()
	_ = w.c.Registry.Stored(stored) // one that is away delays nothing else
	if ctx.Err() != nil {
		return nil
	}
	return w.run(ctx)
}

// Abort ends the engine at once, for a process that is about to end. It waits for the kill command alone, and no longer than [process.Process] does.
func (w *Worker) Abort() {
	w.mu.Lock()
	w.aborted = true
	p := w.running
	w.mu.Unlock()
	if p != nil { // without the lock, so that pages and updates need not wait for the kill command
		p.Abort()
	}
}

// process returns which process is the engine.
func (w *Worker) process() EngineProcess {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := EngineProcess{URL: w.c.URL, Endpoint: w.c.ID, Pool: w.state.worker.Engine.Pool}
	if w.running != nil {
		e.PID = w.running.PID()
	}
	return e
}

// report gives the operator a line.
func (w *Worker) report(format string, args ...any) {
	w.reporting.Lock()
	defer w.reporting.Unlock()
	w.c.Report(fmt.Sprintf(format, args...))
}

// serveAdmin serves the admin pages. Their failure does not end an engine.
func (w *Worker) serveAdmin() {
	if w.c.Admin == nil {
		return
	}
	if err := admin.Serve(w.lifetime, w.c.Admin, w.pages(), w.c.Logger); err != nil {
		w.c.Logger.Error("the admin pages have ended", "error", err)
	}
}
