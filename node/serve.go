package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"colonnade/admin"
	"colonnade/analytics/metrics"
	"colonnade/change"
	"colonnade/colo"
	"colonnade/discovery/engines"
	"colonnade/discovery/files"
	"colonnade/entry"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/acmecert"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
)

// DefaultColo is the name of the colo of a process that serves one place, unless its documents name another one.
const DefaultColo = "local"

// ServeConfig is what a process needs that serves one place by itself: an entry, and the only server of one colo. Of Config, everything about
// etcd and other nodes is ignored.
type ServeConfig struct {
	Config
	Colo          string                   // empty = the one that the documents name, or else DefaultColo
	Documents     string                   // file, or directory of files; empty = none
	Engines       []string                 // URLs of engines that are asked what they serve
	Open          bool                     // see [EntryConfig]
	TLS           peertls.CertificateFiles // see [EntryConfig]
	ACME          acmecert.Config          // instead of TLS, certificates by ACME; CacheDir and Logger are set from Config
	MaxConnsPerIP int                      // see [EntryConfig]
	Reload        <-chan os.Signal         // each signal makes the process read its documents again; nil = none
	Report        func(line string)        // is called with each line of what was found out about Engines
}

// colo returns the colo of the process, by its documents if the settings do not name it.
func (c *ServeConfig) colo(docs []files.Located) (string, error) {
	if c.Colo != "" {
		return c.Colo, nil
	}
	found := map[string]bool{}
	for _, d := range docs {
		if parts := strings.Split(d.Key, "/"); fleet.Kind(parts[0]) == fleet.KindEndpoint && len(parts) > 1 {
			found[parts[1]] = true
		}
	}
	names := slices.Sorted(maps.Keys(found))
	switch len(names) {
	case 0:
		return DefaultColo, nil
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("%s has endpoints of the colos %s, and one process serves one colo: choose it with the flag -colo", c.Documents, strings.Join(names, ", "))
}

// check completes the settings and refuses those that no process can run with.
func (c *ServeConfig) check() (err error) {
	if c.Documents == "" && len(c.Engines) == 0 {
		return errors.New("there is nothing to serve: name an engine with -engine http://HOST:PORT (COLONNADE_ENGINE), or documents with -config PATH (COLONNADE_CONFIG); for engines that register themselves, make a key with colonnade keys create -role worker -config PATH")
	}
	for _, url := range c.Engines {
		if err := engines.CheckURL(url); err != nil {
			return err
		}
	}
	if _, err := c.acmeConfig(); err != nil {
		return err
	}
	var docs []files.Located
	if c.Documents != "" {
		if docs, err = files.Read(c.Documents); err != nil {
			return err
		}
	}
	if c.Colo, err = c.colo(docs); err != nil {
		return err
	}
	if c.Node == "" {
		c.Node = c.Colo + "-1"
	}
	c.Etcd, c.AdvertiseAddress, c.KeyFile, c.PeerTLS = nil, "", "", peertls.Files{}
	c.clientTLS = c.TLS
	c.Keys = hop.RandomKeys() // tokens never leave the process
	return (&ColoConfig{Config: c.Config, Colo: c.Colo}).checkSettings()
}

// store returns the documents that the admin API changes, or why there are none.
func (c *ServeConfig) store() (d *change.Documents, none string) {
	if c.Documents == "" {
		return nil, "this process has no documents that could be changed, since it serves what its engines report (-engine): put documents into files, and start it with -config PATH"
	}
	return &change.Documents{Path: c.Documents}, ""
}

// source returns where the documents are from, for operators.
func (c *ServeConfig) source() string {
	switch {
	case c.Documents == "":
		return "engines"
	case len(c.Engines) == 0:
		return "files at " + c.Documents
	}
	return "engines, and files at " + c.Documents
}

// RunServe runs an entry and a colo server in one process until ctx is done, and then drains them. The entry calls the colo server as a
// function. It calls serving once requests are served.
func RunServe(ctx context.Context, c ServeConfig, serving func(Running)) error {
	if err := c.check(); err != nil {
		return err
	}
	documents := files.New(files.Config{Path: c.Documents, Logger: c.Logger})
	if c.Documents != "" {
		if err := documents.Load(); err != nil {
			return err
		}
	}
	r, err := openListeners(c.Config, "colonnade")
	defer r.close()
	if err != nil {
		return err
	}
	s, err := r.newPlace(&c, documents)
	if err != nil {
		return err
	}
	t := newTasks(ctx)
	defer t.end()
	r.startPlace(t, s)
	r.serveAdmin(t, s.pages())
	// Without a data directory, it cannot know of requests that an earlier process has left without an end.
	left := r.log.Stats()
	r.lingerAfterCrash(t.stopping, left.Crashed > 0 || left.OpenBegins > 0)
	t.Go(func() error { return r.entry.Serve(r.requests) }) // without a table, requests are refused as "starting"
	if r.acme != nil {
		t.Go(func() error { return r.acme.Run(t.ctx) })
	}
	if len(c.Engines) > 0 {
		t.Go(func() error { return s.findEngines(t.ctx) })
	}
	if r.returned != nil {
		t.Go(func() error { return s.awaitWorkers(t.ctx, r) })
	}
	select {
	case <-s.ready(r):
		r.maintenance.begin(drainable{ctx: t.stopping, local: r.drainEntryOnly})
		serving(r.running())
		<-t.stopping.Done()
	case <-t.stopping.Done():
	}

	r.maintenance.end()
	c.Logger.Info("draining", "node", c.Node, "for_at_most", c.Drain)
	drain, cancel := t.drainContext(c.Drain)
	defer cancel()
	err = r.entry.Shutdown(drain, server.NewDrainTimings(c.Drain, entryNotice))
	err = errors.Join(err, s.colo.Shutdown(drain, server.DrainTimings{}))
	t.end()
	err = errors.Join(err, t.Wait())
	c.Logger.Info("stopped", "node", c.Node)
	return err
}

// startPlace starts what a process that serves one place does beside its listeners.
func (r *runtime) startPlace(t tasks, s *place) {
	c := s.config
	t.Go(func() error { return s.documents.Run(t.ctx) })
	t.Go(func() error { return r.sinks.run(t.ctx) })
	t.Go(func() error { return s.colo.Run(t.ctx) })
	t.Go(func() error { return r.entry.Run(t.ctx) })
	t.Go(func() error { return s.reload(t.ctx, c.Reload) })
	t.Go(func() error { return s.applyTables(t.ctx) })
	t.Go(func() error { return s.workers.run(t.ctx) })
	t.Go(func() error { return r.shared.run(t.ctx, c.Colo, s.documents) })
	t.Go(func() error { return r.incidents(c.Colo).Run(t.ctx) })
}

// place is an entry and a colo server in one process.
type place struct {
	config    *ServeConfig
	entry     *entry.Entry
	colo      *colo.Server
	documents *files.Watcher
	workers   *registrations
	applying  sync.Mutex // held while a table is applied, so that none is applied after a newer one
}

// newPlace makes the parts of the process. It sets r.entry.
func (r *runtime) newPlace(c *ServeConfig, documents *files.Watcher) (*place, error) {
	s := &place{config: c, documents: documents}
	r.watch(documents)
	store, none := c.store()
	if err := r.openAPI(store, none, s.registrar()); err != nil {
		return nil, err
	}
	r.source = c.source()
	settings := r.coloSettings(&ColoConfig{Config: c.Config, Colo: c.Colo})
	settings.Metrics, settings.Logger = metrics.WithRole(r.metrics, "colo"), c.Logger.With("role", "colo")
	settings.WithoutListener = true
	var err error
	if s.colo, err = colo.New(settings); err != nil {
		return nil, err
	}
	if err := r.newPlaceEntry(c, s); err != nil {
		return nil, errors.Join(err, s.colo.Shutdown(context.Background(), server.DrainTimings{}))
	}
	documents.SetOwn("server", s.ownDocuments(r))
	documents.SetOwn(ofEngines, nil) // before those of workers, which take no model of theirs when an engine answers late
	r.colo = s.colo
	s.openRegistrations(r)
	s.applyTable()
	s.warnWithoutKeys()
	return s, nil
}

// warnWithoutKeys says that no client can be served, which a start without any key would only show by its refusals.
func (s *place) warnWithoutKeys() {
	if !s.config.Open && !s.documents.Table().HasAPIKeys() {
		s.config.Logger.Warn("there is no API key, so every request is refused; create one with colonnade keys create -config PATH -account NAME and start with -config PATH, or set the flag -open",
			"config", s.config.Documents)
	}
}

func (r *runtime) newPlaceEntry(c *ServeConfig, s *place) (err error) {
	settings, err := r.entrySettings(&EntryConfig{
		Config: c.Config, Open: c.Open, TLS: c.TLS, MaxConnsPerIP: c.MaxConnsPerIP,
		Local: func(registered *fleet.Server) peer.Func {
			if registered.Node != c.Node || registered.Boot != s.colo.Boot() {
				return nil
			}
			return s.colo.Do
		},
		LocalModelFacts: s.colo.ModelFacts,
	})
	if err != nil {
		return err
	}
	settings.Metrics, settings.Logger = metrics.WithRole(r.metrics, "entry"), c.Logger.With("role", "entry")
	source, err := r.openACME(c)
	if err != nil {
		return err
	}
	if source != nil {
		settings.TLS = source.ServerTLS()
	}
	s.entry, err = entry.New(settings)
	r.entry = s.entry
	return err
}

// ownDocuments returns the documents that nodes of a fleet would find in etcd: that of the colo, unless the files have it, and that of its
// server.
func (s *place) ownDocuments(r *runtime) []document.Raw {
	self := fleet.Server{
		Address: r.requests.Addr().String(), Admin: r.admin.Addr().String(), Boot: s.colo.Boot(), State: fleet.StateActive,
		Protocol: fleet.ProtocolRange{Min: fleet.OldestProtocol, Max: fleet.Protocol}, Version: Version(),
	}
	return []document.Raw{
		{Key: fleet.KindColo.Key(s.config.Colo), Value: []byte("{}")},
		{Key: fleet.KindServer.Key(s.config.Colo, s.config.Node), Value: encode(self)},
	}
}

// findEngines asks the engines what they serve, and makes documents of the answers, until ctx is done.
func (s *place) findEngines(ctx context.Context) error {
	var first sync.Once
	logger := s.config.Logger
	if s.config.Report != nil {
		logger = slog.New(slog.DiscardHandler) // it would say the same
	}
	finder := engines.New(engines.Config{
		URLs: s.config.Engines, Colo: s.config.Colo, Logger: logger, Report: s.config.Report,
		Found: func(docs []document.Raw) {
			s.documents.SetOwn(ofEngines, docs)
			if s.config.Documents == "" {
				first.Do(func() { _ = s.documents.Load() }) // of no files: the table is there from now on
			}
		},
	})
	return finder.Run(ctx)
}

// reload reads the documents again at each signal.
func (s *place) reload(ctx context.Context, signals <-chan os.Signal) error {
	for {
		select {
		case <-signals:
			s.documents.Reload()
		case <-ctx.Done():
			return nil
		}
	}
}

// applyTables applies each new table to the colo server.
func (s *place) applyTables(ctx context.Context) error {
	for {
		changed := s.documents.Changed()
		s.applyTable()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// applyTable applies the newest table to the colo server.
func (s *place) applyTable() {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.colo.Apply(s.documents.Table())
}

// pages returns the admin pages of both parts.
func (s *place) pages() admin.Config {
	return admin.Config{
		Ready: s.entry.Ready,
		Pools: func(accounts int) any { return s.colo.PoolStates(accounts) },
		Check: func() []error { return append(s.entry.Check(), s.colo.Check()...) },
		Plan:  func(model, account string) (any, error) { return s.entry.ExplainPlan(model, account) },
	}
}
