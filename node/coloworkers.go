package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"colonnade/admin/api"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/worker"
	"colonnade/worker/registration"
	"colonnade/worker/wire"
)

const (
	storedTimeout = 1500 * time.Millisecond // for which a PUT waits until etcd has the documents; renewals come each third of a TTL
	inFlightTime  = time.Second             // for the records of the colo
)

// behalf registers workers in etcd on their behalf: the documents of each stand under a lease that this server keeps while the worker renews its
// registration. It is safe for concurrent use.
type behalf struct {
	client     *etcd.Client
	colo, node string
	table      func() *fleet.Table
	// markRevoked takes endpoints out of the table whose leases have expired.
	markRevoked func(keys ...string)
	logger      *slog.Logger

	mu     sync.Mutex // guards the fields below
	all    map[string]*represented
	ending bool
}

// represented is one worker.
type represented struct {
	node     string
	holder   holder
	mark     string // of the API key that authorised it; empty = a token of an operator
	endpoint string // key of the engine's document
	registry worker.Registry
	renewed  time.Time
	stop     context.CancelCauseFunc
	ended    chan struct{}
	err      error // once ended is closed
}

// registrar takes registrations of workers.
func (b *behalf) registrar() api.Registrar {
	return api.Registrar{
		Key: b.findKey, Put: b.put, Remove: b.remove,
		PoolOf: func(model string) string { return poolOf(b.table(), model) },
	}
}

// put takes or renews a registration, and waits a while until etcd has it.
func (b *behalf) put(ctx context.Context, r *api.Registration) (wire.Answer, error) {
	if err := checkColo(r, b.colo); err != nil {
		return wire.Answer{}, err
	}
	w, err := b.renew(r)
	if err != nil {
		return wire.Answer{}, err
	}
	answer := wire.Answer{Node: b.node, Colo: b.colo, TTLSeconds: wire.TTL.Seconds()}
	if answer.Reason, err = w.awaitStored(ctx); err != nil {
		b.forget(w)
		return wire.Answer{}, &api.Error{Status: refusalOf(err), Message: err.Error()}
	}
	answer.Stored = answer.Reason == ""
	answer.InFlight, err = w.inFlight(ctx, r, answer.Stored)
	return answer, err
}

var errReplaced = errors.New("the registration was ended by another request")

// refusalOf returns the status of an error that has ended a registration: 409 if the place may be free later, 400 if an operator must change something.
func refusalOf(err error) int {
	var taken *etcd.TakenError
	if errors.As(err, &taken) && !taken.ByHand || errors.Is(err, errReplaced) {
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

// renew gives the newest state of a worker to its registry, which is made for the first one.
func (b *behalf) renew(r *api.Registration) (*represented, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.all[r.Worker.Node]
	switch {
	case b.ending:
		return nil, &api.Error{Status: http.StatusServiceUnavailable, Message: "the server is ending; try again, or another server of the colo"}
	case w != nil && !w.holder.is(holderOf(r)):
		return nil, taken(w.node)
	case w == nil && len(b.all) >= mostRegistrations:
		return nil, &api.Error{Status: http.StatusConflict, Message: fmt.Sprintf("this server registers %d workers, and no more: use another server of the colo", len(b.all))}
	case w == nil:
		w = b.startLocked(r)
	}
	if err := checkSame(w.endpoint, endpointKey(r)); err != nil {
		return nil, err
	}
	w.renewed = time.Now()
	state := worker.Registration{Worker: r.Worker, Models: r.Models}
	if r.Endpoint != nil {
		state.Endpoint = r.Documents[1]
	}
	w.registry.Set(state)
	return w, nil
}

// endpointKey returns the key of the document of a worker's engine, which it may not have put yet.
func endpointKey(r *api.Registration) string {
	return fleet.KindEndpoint.Key(r.Worker.Colo, r.Worker.Engine.Endpoint)
}

func (b *behalf) startLocked(r *api.Registration) *represented {
	b.logger.Info("registering an engine on behalf of a worker", "worker", r.Worker.Node, "url", r.Worker.Engine.URL, "by", r.By)
	ctx, stop := context.WithCancelCause(context.Background())
	w := &represented{
		node: r.Worker.Node, holder: holderOf(r), mark: r.Worker.RegisteredBy, endpoint: endpointKey(r), stop: stop, ended: make(chan struct{}),
	}
	w.registry = registration.InEtcd(registration.Config{
		Client: b.client, Colo: b.colo, Node: w.node, Machine: r.Worker.Machine, TTL: wire.TTL, OnBehalf: true, Logger: b.logger.With("worker", w.node),
	})
	b.all[w.node] = w
	go func() {
		defer close(w.ended)
		w.err = w.registry.Run(ctx)
		stop(nil)
	}()
	return w
}

// awaitStored waits until etcd has the newest state, and says why it has not, if that takes long. An error says why it will not have it.
func (w *represented) awaitStored(ctx context.Context) (why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storedTimeout)
	defer cancel()
	waited := make(chan error, 1)
	go func() { waited <- w.registry.Stored(ctx) }()
	select {
	case err := <-waited:
		if err != nil {
			why = err.Error()
		}
		return why, nil
	case <-w.ended:
		cancel()
		<-waited //nolint:errcheck // it is the context's end
		if w.err == nil {
			return "", errReplaced
		}
		return "", w.err
	}
}

// inFlight returns how many requests may be on the engine. While it may get some, that is one at least.
func (w *represented) inFlight(ctx context.Context, r *api.Registration, stored bool) (int, error) {
	switch {
	case r.Endpoint == nil:
		return 0, nil
	case r.Endpoint.Serves() || !stored:
		return 1, nil
	}
	ctx, cancel := context.WithTimeout(ctx, inFlightTime)
	defer cancel()
	n, err := w.registry.InFlight(ctx)
	if err != nil { // nothing is known, so the engine must not be stopped yet
		return 1, nil // the registration stands
	}
	return n, nil
}

// remove ends a registration; an empty boot is that of any process.
func (b *behalf) remove(ctx context.Context, node, boot string, key *fleet.APIKey) error {
	b.mu.Lock()
	w := b.all[node]
	b.mu.Unlock()
	switch {
	case w == nil: // another server may have it: nothing is renewed there any more
		return nil
	case !w.holder.mayRemove(boot, key):
		return taken(node)
	}
	b.logger.Info("registration ended by the worker", "worker", node)
	w.stop(nil)
	select {
	case <-w.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	b.forget(w)
	return nil
}

// forget forgets a worker whose registration has ended.
func (b *behalf) forget(w *represented) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[w.node] == w {
		delete(b.all, w.node)
	}
}

// run ends registrations that are not renewed. When ctx is done, all others are left to expire: their workers turn to another server, or to the
// next process of this one, which takes them over.
func (b *behalf) run(ctx context.Context) error {
	tick := time.NewTicker(lapseInterval)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			b.sweep(ctx, now)
		case <-ctx.Done():
			b.mu.Lock()
			b.ending = true
			b.mu.Unlock()
			b.end(b.registered(), registration.ErrLapsed)
			return nil
		}
	}
}

// sweep ends the registrations that were not renewed within a TTL, and those by API keys that are not valid any more. The colo keeps an engine
// while it answers, unless its key is not valid: then each server takes it out.
func (b *behalf) sweep(ctx context.Context, now time.Time) {
	bad := b.revoked(ctx)
	var lapsed, revoked []*represented
	for _, w := range b.registered() {
		b.mu.Lock()
		renewed := w.renewed
		b.mu.Unlock()
		switch {
		case bad[w.mark]:
			b.logger.Warn("registration ended: its API key is not valid any more", "worker", w.node, "key", fleet.MarkedKeyID(w.mark))
			revoked = append(revoked, w)
		case now.Sub(renewed) >= wire.TTL:
			b.logger.Warn("registration is not renewed", "worker", w.node)
			lapsed = append(lapsed, w)
		}
	}
	b.end(revoked, nil)
	b.end(lapsed, registration.ErrLapsed)
	var revokedEndpoints []string
	for _, e := range b.expired() {
		if bad[e.RegisteredBy] {
			revokedEndpoints = append(revokedEndpoints, fleet.KindEndpoint.Key(e.Colo, e.ID))
		}
	}
	b.markRevoked(revokedEndpoints...)
}

// registered returns the workers, in the order in which they were renewed.
func (b *behalf) registered() (all []*represented) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.all {
		all = append(all, w)
	}
	slices.SortFunc(all, func(x, y *represented) int { return x.renewed.Compare(y.renewed) })
	return all
}

// end ends registrations at once, and waits for them.
func (b *behalf) end(all []*represented, cause error) {
	for _, w := range all {
		w.stop(cause)
	}
	for _, w := range all {
		<-w.ended
		b.forget(w)
	}
}
