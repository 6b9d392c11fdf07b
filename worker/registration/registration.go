package registration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
	"colonnade/worker"
)

const (
	retryInterval  = time.Second
	storedInterval = 10 * time.Millisecond // between two looks whether the newest state is stored
)

// Config says where the documents stand.
type Config struct {
	Client  *etcd.Client
	Colo    string
	Node    string        // of the worker's document
	Machine string        // in the history of changes
	TTL     time.Duration // of the lease, whole seconds; 0 = etcd.DefaultTTL
	// Dir is a directory for the lease, so that a worker that was killed need not wait until it has expired; "" = none.
	Dir string
	// OnBehalf says that this process registers a worker elsewhere, which may turn to another such process: the newest Run for one boot id and API key has
	// the place, and an earlier one ends with an error. Run leaves the documents to expire if the cause of its context's end is ErrLapsed.
	OnBehalf bool
	Logger   *slog.Logger // nil = nothing is logged
}

// ErrLapsed says that nothing was heard of the worker, which may live.
var ErrLapsed = fmt.Errorf("nothing was heard of the worker: %w", etcd.ErrAbandon)

// registry is behind a [worker.Registry].
type registry struct {
	c    Config
	wake chan struct{} // to Run: there is a new state; capacity 1
	ends chan struct{} // is closed when Run has ended

	lease   atomic.Pointer[etcd.Lease] // nil before the first Set
	applied atomic.Int64               // number of the state that the lease has
	served  atomic.Bool                // the endpoint was stored
	begun   atomic.Bool                // to put the endpoint: until then no server may send requests because of it
	waits   atomic.Pointer[error]      // why it cannot be put yet; nil = nothing is known

	refusals rate.Sometimes // limits log lines

	mu     sync.Mutex // guards the fields below
	newest worker.Registration
	number int64 // of newest, from 1; 0 = there is none yet
}

// InEtcd returns the registry of a worker whose documents stand in etcd.
func InEtcd(c Config) worker.Registry {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	r := &registry{c: c, wake: make(chan struct{}, 1), ends: make(chan struct{}), refusals: rate.Sometimes{Interval: refusalInterval}}
	return worker.Registry{Run: r.run, Set: r.set, Stored: r.awaitStored, InFlight: r.inFlight, PoolOf: r.poolOf}
}

func (r *registry) set(s worker.Registration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = s
	r.number++
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// current returns the newest state and its number.
func (r *registry) current() (worker.Registration, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest, r.number
}

// errEnded says that Run has ended, so that nothing is stored any more.
var errEnded = errors.New("the worker is not registered any more")

func (r *registry) awaitStored(ctx context.Context) error {
	for {
		newest, number := r.current()
		if newest.Worker.Engine.State == fleet.WorkerDraining && r.unseen() {
			return nil // no server has seen the endpoint, nor will see it with slots
		}
		if lease := r.lease.Load(); lease != nil && r.applied.Load() == number && lease.Stored() {
			return nil
		}
		select {
		case <-r.ends:
			return errEnded
		default:
		}
		if !ctxtime.Sleep(ctx, storedInterval) {
			return fmt.Errorf("etcd has not confirmed the newest state of %s: %w", fleet.KindWorker.Key(r.c.Node), r.whyWaits(ctx))
		}
	}
}

// whyWaits returns why the newest state could not be put before ctx ended.
func (r *registry) whyWaits(ctx context.Context) error {
	if why := r.waits.Load(); why != nil {
		return *why
	}
	return context.Cause(ctx)
}

// unseen reports whether no server has seen the endpoint. Another process may have put it before, if this one registers it on behalf of a worker.
func (r *registry) unseen() bool { return !r.c.OnBehalf && !r.begun.Load() }

func (r *registry) run(ctx context.Context) error {
	defer close(r.ends)
	unlock, err := r.lockDir()
	if err != nil {
		return err
	}
	defer unlock()
	select {
	case <-r.wake:
	case <-ctx.Done():
		return nil
	}
	if err := r.whenReached(ctx, r.checkColo); err != nil || ctx.Err() != nil {
		return err
	}
	if err := r.whenReached(ctx, r.checkOperators); err != nil || ctx.Err() != nil {
		return err
	}
	return r.keepPlace(ctx)
}

// keepPlace registers the worker until ctx ends, again when its place was lost and is free.
func (r *registry) keepPlace(ctx context.Context) error {
	placed, logged := false, false
	for {
		lease, err := r.newLease()
		if err != nil {
			return err
		}
		err = r.keep(ctx, lease)
		var taken *etcd.TakenError
		if !errors.As(err, &taken) {
			return err
		}
		if !lease.ConfirmedAt().IsZero() {
			placed, logged = true, false
		}
		err = r.explain(ctx, taken)
		if r.c.OnBehalf || !placed || taken.Holder != fleet.KindWorker.Key(r.c.Node) && !r.served.Load() {
			return err
		}
		if !logged {
			r.c.Logger.Error("the place of this worker was taken while it could not reach etcd; its engine serves on, and is registered again once the place is free", "error", err)
		}
		logged = true
		if !ctxtime.Sleep(ctx, retryInterval) {
			return nil
		}
	}
}

// newLease returns the lease of the newest state.
func (r *registry) newLease() (*etcd.Lease, error) {
	newest, _ := r.current()
	value, err := encode(newest.Worker)
	if err != nil {
		return nil, err
	}
	place := etcd.Registration{
		Client: r.c.Client, Prefix: etcd.DefaultPrefix, Key: fleet.KindWorker.Key(r.c.Node), Value: value, TTL: r.c.TTL, Logger: r.c.Logger, SavedLease: r.file(".lease"),
	}
	if r.c.OnBehalf {
		place.Same = func(there []byte) bool { // the boot id is no secret, so the key counts too
			other := workerOf(there)
			return other.Boot == newest.Worker.Boot && other.RegisteredBy == newest.Worker.RegisteredBy
		}
	}
	lease := etcd.NewLease(place)
	r.applied.Store(0)
	r.lease.Store(lease)
	return lease, nil
}

// encode returns the document of a worker, which must be valid.
func encode(w fleet.Worker) ([]byte, error) {
	value, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("cannot write the worker's document as JSON: %w", err)
	}
	return value, document.Check(fleet.KindWorker.Key(w.Node), value)
}

// keep keeps the newest state under a lease until ctx ends, then removes it.
func (r *registry) keep(ctx context.Context, lease *etcd.Lease) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return lease.Run(ctx) })
	group.Go(func() error { return r.follow(ctx, lease) })
	return group.Wait()
}

// follow gives the lease each new state, until ctx ends.
func (r *registry) follow(ctx context.Context, lease *etcd.Lease) error {
	creating, stop := context.WithCancel(ctx)
	models := &further{r: r}
	defer models.wait()
	defer stop()
	for {
		newest, number := r.current()
		if newest.Endpoint.Key != "" && !r.served.Load() {
			models.known = keysOf(newest.Models)
			prepare := func(ctx context.Context) error { return r.prepare(ctx, newest) }
			if err := r.whenReached(ctx, prepare); err != nil || ctx.Err() != nil {
				return err
			}
			r.begun.Store(true)
			newest, number = r.current() // the engine may have been taken out meanwhile
		}
		if err := r.apply(ctx, lease, newest); err != nil {
			return err
		}
		r.applied.Store(number)
		again := models.next(creating, newest)
		select {
		case <-r.wake:
		case <-again:
		case err := <-models.created:
			models.ended(err)
		case <-ctx.Done():
			return nil
		}
	}
}

func keysOf(docs []document.Raw) (keys []string) {
	for _, d := range docs {
		keys = append(keys, d.Key)
	}
	return keys
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(key string) bool { return !slices.Contains(all, key) })
}

// apply gives the lease a state. If etcd does not take it now, the lease puts it later.
func (r *registry) apply(ctx context.Context, lease *etcd.Lease, s worker.Registration) error {
	value, err := encode(s.Worker)
	if err != nil {
		return err
	}
	if s.Endpoint.Key != "" {
		if err := document.Check(s.Endpoint.Key, s.Endpoint.Value); err != nil {
			return err
		}
		if lease.Attach(ctx, s.Endpoint.Key, s.Endpoint.Value) == nil && lease.Stored() {
			r.served.Store(true)
		}
	}
	_ = lease.Update(ctx, value)
	return nil
}

// finalError says that something was wrong from the start, so that trying again is of no use.
type finalError struct{ error }

// whenReached calls do until it succeeds, fails by a finalError, which it returns without its type, or ctx ends.
func (r *registry) whenReached(ctx context.Context, do func(context.Context) error) error {
	for failing := false; ; failing = true {
		err := do(ctx)
		var final finalError
		switch {
		case err == nil || ctx.Err() != nil:
			r.waits.Store(nil)
			return nil
		case errors.As(err, &final):
			return final.error
		case !failing:
			r.c.Logger.Warn("cannot register the engine yet; retrying", "error", err)
		}
		r.waits.Store(&err)
		if !ctxtime.Sleep(ctx, retryInterval) {
			return nil
		}
	}
}
