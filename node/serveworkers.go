package node

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"colonnade/accounts"
	"colonnade/admin/api"
	"colonnade/discovery/engines"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/ctxtime"
	"colonnade/permits"
	"colonnade/worker/registration"
	"colonnade/worker/wire"
)

// returnTime is how long a process without saved registrations waits for workers that may have been registered at the last one. Each renews its
// registration within that time.
const returnTime = wire.TTL / 2

// The sources of the documents of engines of the flag -engine, and of workers.
const (
	ofEngines = "engines"
	ofWorkers = "workers"
)

// openRegistrations makes the registrations of workers.
func (s *place) openRegistrations(r *runtime) {
	s.workers = &registrations{
		colo: s.config.Colo, file: r.config.file("registrations"), logger: r.config.Logger,
		valid: func(hash fleet.KeyHash) bool {
			key, ok := s.documents.Table().APIKeyByHash(hash)
			return ok && key.ForWorkers() && !key.ExpiredAt(time.Now())
		},
		answers: s.answers,
		publish: func(docs []document.Raw) { s.documents.SetOwn(ofWorkers, docs) },
	}
	if !s.workers.load(time.Now()) && s.documents.Table().HasWorkerKeys() {
		r.returned = make(chan struct{})
	}
}

// awaitWorkers waits for the workers of the last process. Until then, requests are refused as "starting": those for a model that is not known yet
// would get 404.
func (s *place) awaitWorkers(ctx context.Context, r *runtime) error {
	s.config.Logger.Info("waiting for workers whose engines an earlier process may have had", "seconds", returnTime.Seconds())
	if ctxtime.Sleep(ctx, returnTime) {
		close(r.returned)
	}
	return nil
}

// answers reports whether the health check of an engine succeeds.
func (s *place) answers(url string) bool {
	for _, p := range s.colo.Pools() {
		at := slices.IndexFunc(p.Endpoints, func(e permits.EndpointStats) bool { return e.URL == url })
		if at >= 0 {
			return p.Endpoints[at].Health.State == "up" || p.Endpoints[at].Health.State == "ejected"
		}
	}
	return false
}

// ready returns a channel that is closed once requests can be served.
func (s *place) ready(r *runtime) <-chan struct{} {
	if r.returned != nil { // the documents are there: they have the keys of the workers
		return r.returned
	}
	return s.documents.Ready()
}

// registrar takes registrations of workers.
func (s *place) registrar() api.Registrar {
	return api.Registrar{
		Key: func(_ context.Context, key string) (*fleet.APIKey, error) {
			return accounts.FindKey(s.documents.Table(), key, time.Now())
		},
		Put: func(_ context.Context, r *api.Registration) (wire.Answer, error) {
			return s.registerWorker(r)
		},
		Remove: func(_ context.Context, node, boot string, key *fleet.APIKey) error {
			return s.workers.remove(node, boot, key, time.Now())
		},
		PoolOf: func(model string) string { return poolOf(s.documents.Table(), model) },
	}
}

// poolOf returns the pool that the document of a model names; empty if there is none.
func poolOf(t *fleet.Table, model string) string {
	if m, ok := t.Model(model); ok {
		return m.Pool
	}
	return ""
}

// checkColo refuses registrations for another colo.
func checkColo(r *api.Registration, colo string) error {
	if r.Worker.Colo == colo {
		return nil
	}
	return &api.Error{Status: http.StatusBadRequest, Field: "worker.colo", Message: fmt.Sprintf(
		"worker.colo: is %q, and this server is of the colo %s: give colonnade register -colo %[2]s, or the -server of a server of %[1]q", r.Worker.Colo, colo)}
}

// checkOperators refuses an engine that a file describes, or the flag -engine names, also before it answers: that document stays in force, so the
// worker could not take the engine out.
func (s *place) checkOperators(r *api.Registration) error {
	key := fleet.KindEndpoint.Key(r.Worker.Colo, r.Worker.Engine.Endpoint)
	refusal := func(field, there, has, who string) error {
		return &api.Error{Status: http.StatusBadRequest, Field: field, Message: fmt.Sprintf(
			"%s: %s has %s already, by %s, which stays in force: remove it there, or do not register this engine", field, there, has, who)}
	}
	if who := s.operatorOf(key); who != "" {
		return refusal("worker.engine.endpoint", key, "a document", who)
	}
	url, err := engines.NormalURL(r.Worker.Engine.URL)
	if err != nil {
		return &api.Error{Status: http.StatusBadRequest, Field: "worker.engine.url", Message: "worker.engine.url: " + err.Error()}
	}
	for _, e := range s.documents.Table().EndpointsOf(r.Worker.Colo) {
		if e.URL != url && (r.Endpoint == nil || e.URL != r.Endpoint.URL) {
			continue
		}
		other := fleet.KindEndpoint.Key(e.Colo, e.ID)
		if who := s.operatorOf(other); who != "" {
			return refusal("worker.engine.url", other, "the URL "+e.URL, who)
		}
	}
	return nil
}

// operatorOf returns where an operator has put a document; empty if it is of a worker, or there is none.
func (s *place) operatorOf(key string) string {
	switch file, source := s.documents.Owner(key); {
	case file != "":
		return file
	case source != "" && source != ofWorkers:
		return "the flag -engine"
	}
	return ""
}

// registerWorker takes a registration. When it returns, no permit is granted on the engine that the registration does not allow.
func (s *place) registerWorker(r *api.Registration) (wire.Answer, error) {
	if err := checkColo(r, s.config.Colo); err != nil {
		return wire.Answer{}, err
	}
	if err := s.checkOperators(r); err != nil {
		return wire.Answer{}, err
	}
	r.Models = registration.Additions(s.documents.Table(), r.Models, r.Worker.RegisteredBy)
	if err := s.workers.put(r, time.Now()); err != nil {
		return wire.Answer{}, err
	}
	if s.config.Documents == "" {
		_ = s.documents.Load() // of no files: the table is there from now on, also if no engine of -engine has answered
	}
	s.applyTable()
	answer := wire.Answer{Node: s.config.Node, Colo: s.config.Colo, TTLSeconds: wire.TTL.Seconds(), Stored: true}
	if r.Endpoint != nil {
		answer.InFlight = s.colo.Held()[r.Endpoint.URL]
	}
	return answer, nil
}
