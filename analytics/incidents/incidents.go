// Package incidents makes events of what workers report: what has gone wrong at the engines of a colo and their GPUs.
package incidents

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/homes"
)

const (
	// homeInterval is the longest time until a server notices that it has become the home of a pool, and reports the incidents of its engines.
	homeInterval = time.Second
	// maxAge is the age from which a server does not report incidents: those were reported when they were new, and a server that starts would
	// repeat them all.
	maxAge = 24 * time.Hour
	// maxKnown is how many workers without a document are remembered, so that one that returns is not reported twice.
	maxKnown = 10_000
	// keyRate is how many events of incidents a server writes each second for all workers of one API key, whose names cost nothing, after keyBurst at
	// once. Those of one key take nothing of what others have.
	keyRate, keyBurst = 10, 1000
)

// Config is what a reporter needs.
type Config struct {
	Colo, Node string                 // of the server
	Table      func() *fleet.Table    // the newest
	Changed    func() <-chan struct{} // closed when the next table is there
	Append     func(*analytics.Event)
}

// Reporter reports the incidents of a colo, each once in the life of a process. The server writes them that is the home of the engine's pool. The
// next home writes them again, with the same ids, since it does not know which of them were kept. Not safe for concurrent use.
type Reporter struct {
	config  Config
	written map[string]*written      // by worker
	paces   map[string]*rate.Limiter // of all events, by the mark of the API key; empty = workers that reach etcd, or have a token of an operator
}

// written is up to where the incidents of a worker were reported.
type written struct {
	boot   string
	number int
	pace   *rate.Limiter // of its events: a worker must not fill the journal
}

// New returns a reporter that has reported nothing.
func New(c Config) *Reporter {
	return &Reporter{config: c, written: map[string]*written{}, paces: map[string]*rate.Limiter{}}
}

// Run reports incidents until ctx is done.
func (r *Reporter) Run(ctx context.Context) error {
	tick := time.NewTicker(homeInterval)
	defer tick.Stop()
	for {
		changed := r.config.Changed()
		r.report(r.config.Table(), time.Now())
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// report writes the events of the incidents in a table that were not reported yet.
func (r *Reporter) report(t *fleet.Table, now time.Time) {
	for _, w := range t.Workers() {
		if w.Colo != r.config.Colo || len(w.Incidents) == 0 {
			continue
		}
		if owner := homes.Owner(w.Engine.Pool, t.Registered(r.config.Colo)); owner == nil || owner.Node == r.config.Node {
			r.reportWorker(t, w, now)
		}
	}
	if len(r.written) > len(t.Workers())+maxKnown {
		clear(r.written) // incidents may be written twice then
	}
	if len(r.paces) > maxKnown {
		clear(r.paces)
	}
}

// mayWrite takes a token of the worker and of its API key, or none of either.
func (r *Reporter) mayWrite(w *fleet.Worker, own *rate.Limiter, now time.Time) bool {
	ofKey := r.paces[w.RegisteredBy]
	if ofKey == nil {
		ofKey = rate.NewLimiter(keyRate, keyBurst)
		r.paces[w.RegisteredBy] = ofKey
	}
	return own.TokensAt(now) >= 1 && ofKey.AllowN(now, 1) && own.AllowN(now, 1)
}

func (r *Reporter) reportWorker(t *fleet.Table, w *fleet.Worker, now time.Time) {
	before := r.written[w.Node]
	if before == nil {
		before = &written{pace: rate.NewLimiter(1, 2*fleet.MaxIncidents)}
		r.written[w.Node] = before
	}
	if before.boot != w.Boot {
		before.boot, before.number = w.Boot, 0
	}
	for _, incident := range w.Incidents {
		if incident.Number <= before.number {
			continue
		}
		if now.Sub(incident.Time) < maxAge {
			if !r.mayWrite(w, before.pace, now) {
				return // the next report goes on, with what the document has then
			}
			r.config.Append(r.event(t, w, incident))
		}
		before.number = incident.Number
	}
}

// event returns the event about an incident of a worker. Its time is that of the incident, so that a repeated event is the same.
func (r *Reporter) event(t *fleet.Table, w *fleet.Worker, of fleet.Incident) *analytics.Event {
	e := &analytics.Event{
		EventID: analytics.IncidentID(w.Node, w.Boot, of.Number), Kind: analytics.KindEngine, Phase: analytics.PhaseEnd, Time: of.Time,
		ColoID: r.config.Colo, Pool: w.Engine.Pool, Endpoint: w.Engine.Endpoint, Worker: w.Node, Machine: w.Machine, GPU: of.GPU,
		Reason: of.Kind, Detail: of.Detail,
	}
	for _, endpoint := range t.Endpoints(r.config.Colo, w.Engine.Pool) {
		if endpoint.ID == w.Engine.Endpoint {
			e.Engine = endpoint.Engine
		}
	}
	return e
}
