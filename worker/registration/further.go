package registration

import (
	"context"
	"time"

	"colonnade/discovery/etcd"
	"colonnade/worker"
)

const (
	furtherInterval = 5 * time.Second // at least, from one try to create documents of further models to the next
	refusalInterval = time.Minute     // at least, from one log line about models that are not created to the next
)

// further creates the documents of models that the engine lists later: beside the states of the lease, since a drain must not wait for them, and at
// intervals, since a worker may list others each time. Not safe for concurrent use.
type further struct {
	r       *registry
	known   []string // keys of the models that there are documents of
	begun   time.Time
	failing bool

	created chan error // has the result of the creation that runs; nil = none does
	keys    []string   // of that one
}

// next begins to create what is lacking, unless a creation runs. A channel says when to call it again; nil = at the next state.
func (f *further) next(ctx context.Context, newest worker.Registration) <-chan time.Time {
	if f.created != nil || !f.r.served.Load() || containsAll(f.known, keysOf(newest.Models)) {
		return nil
	}
	if wait := furtherInterval - time.Since(f.begun); wait > 0 {
		return time.After(wait)
	}
	created := make(chan error, 1)
	f.begun, f.keys, f.created = time.Now(), keysOf(newest.Models), created
	go func() { created <- f.r.createLacking(ctx, newest) }()
	return nil
}

// ended takes the result of a creation.
func (f *further) ended(err error) {
	f.created = nil
	if err == nil {
		f.known, f.failing = f.keys, false
		return
	}
	if !f.failing {
		f.r.c.Logger.Warn("cannot create the documents of further models; retrying", "error", err)
	}
	f.failing = true
}

// wait waits for the creation that runs, whose context has ended.
func (f *further) wait() {
	if f.created != nil {
		<-f.created //nolint:errcheck // it is the end of the context
	}
}

// logRefused logs which models the worker may not add, in one line for all.
func (r *registry) logRefused(there []etcd.Stored, s worker.Registration, created []string) {
	refused := refusedModels(tableOf(there), s.Models, created)
	if len(refused) == 0 {
		return
	}
	r.refusals.Do(func() {
		r.c.Logger.Warn("models of the engine are not created: the pool has a model of an operator's, or the API key has created too many; put the documents yourself",
			"models", len(refused), "first", refused[0])
	})
}
