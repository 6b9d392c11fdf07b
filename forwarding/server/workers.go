package server

import (
	"slices"
	"sync"
	"time"
)

// workerIdle is how long a worker stays that is not needed, and twice as long at most.
const workerIdle = 5 * time.Second

// workers are goroutines that serve streams. A worker serves one stream after another, so that its stack grows once and not for each request. A worker whose exchange
// is suspended takes the next task, and any worker may go on with that exchange. The worker that has become idle last is used first, and those that were not needed
// for workerIdle end. The caller must call close when no link is left.
type workers struct {
	serve   func(task)
	running sync.WaitGroup // workers, and goroutines that write bodies

	mu       sync.Mutex  // guards the fields below
	idle     []chan task // of idle workers, the last one at the end; none ends one
	unneeded int         // how many of them, from the begin, were idle since the last sweep
	timer    *time.Timer // calls sweep; nil = it does not run
	closed   bool
}

// task is a new stream to serve, or an exchange to go on with.
type task struct {
	stream    linkedStream
	suspended *Exchange
}

// give has a worker do a task, and does not wait.
func (w *workers) give(t task) {
	if idle := w.takeIdle(); idle != nil {
		idle <- t
		return
	}
	w.running.Go(func() { w.run(t) })
}

func (w *workers) takeIdle() chan<- task {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.idle) - 1
	if last < 0 {
		return nil
	}
	taken := w.idle[last]
	w.idle = w.idle[:last]
	w.unneeded = min(w.unneeded, last)
	return taken
}

func (w *workers) run(t task) {
	next := make(chan task, 1)
	for ; t != (task{}); t = <-next {
		w.serve(t)
		if !w.park(next) {
			return
		}
	}
}

// park makes a worker idle. It returns false if the worker is to end.
func (w *workers) park(next chan task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.idle = append(w.idle, next)
	if w.timer == nil {
		w.timer = time.AfterFunc(workerIdle, w.sweep)
	}
	return true
}

// sweep ends the workers that were idle since the last one.
func (w *workers) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(w.unneeded)
	if w.unneeded, w.timer = len(w.idle), nil; w.unneeded > 0 && !w.closed {
		w.timer = time.AfterFunc(workerIdle, w.sweep)
	}
}

// endLocked ends the first n idle workers.
func (w *workers) endLocked(n int) {
	for _, next := range w.idle[:n] {
		next <- task{}
	}
	w.idle, w.unneeded = slices.Delete(w.idle, 0, n), 0
}

// close ends all workers, and returns when they have ended and all bodies are written.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.endLocked(len(w.idle))
	if w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	w.running.Wait()
}
