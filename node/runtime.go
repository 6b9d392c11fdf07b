package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/admin"
	"colonnade/admin/api"
	"colonnade/analytics/incidents"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/analytics/query"
	"colonnade/colo"
	"colonnade/discovery/etcd"
	"colonnade/entry"
	"colonnade/fleet"
	"colonnade/forwarding/acmecert"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/liveness"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/forwarding/server"
	"colonnade/ratelimit/shared"
	"colonnade/tracing"
)

const (
	// Prefix is the prefix of the fleet's documents in etcd.
	Prefix = etcd.DefaultPrefix
	// leaseTTL is how long a node's document outlives the node.
	leaseTTL = 5 * time.Second
	// deadInterval is how often a colo server looks for endpoints that have lost their lease and do not answer.
	deadInterval = time.Second
	// tableWarning is how long a node waits for its first table before it logs a warning, and tableWarningAgain how long
	// until the next one.
	tableWarning      = 2 * time.Second
	tableWarningAgain = time.Minute
	// registerRetry is how often an entry tries to register while another node holds its key.
	registerRetry = 10 * time.Second
)

// Config is what every node needs.
type Config struct {
	Node             string   // name; part of keys in etcd
	Listen           string   // host:port of the listener for requests
	AdvertiseAddress string   // host:port at which other nodes reach Listen; empty = the address that Listen is bound to
	Admin            string   // host:port of the admin listener
	AdminTokens      string   // file with the tokens of the admin API; empty = there is no API
	AdminHosts       []string // names under which the admin pages are served, besides the node's own; see [admin.Config]
	Etcd             []string
	Sinks            []string      // URLs to which events are sent, from DataDir; see [sinks.Parse]
	DataDir          string        // for events, the last good documents and the lease; empty = nothing is kept
	CredentialsDir   string        // files with credentials that documents name are read only below it; empty = none is read
	Keys             *hop.Keys     // of the fleet
	KeyFile          string        // that Keys come from, and that replaces them when it changes; empty = none
	PeerTLS          peertls.Files // empty = nodes speak plain HTTP to each other
	Drain            time.Duration // longest time that running requests may take once the node has to stop
	Logger           *slog.Logger
	MaxConns         int              // of the listener for requests; 0 = as many as the limit of open files allows
	FilesPerConn     int              // open files that a connection may need; 0 = 2
	WriteStall       time.Duration    // longest time of one write to a client; 0 = 30 s
	BodyMemory       int64            // of all unfinished request bodies, in bytes; 0 = 512 MiB
	MetricsAccounts  int              // accounts with metrics of their own; 0 = none
	Liveness         liveness.Timings // after which another server is silent; zero = liveness.DefaultTimings

	// Via returns the address to which this node connects for requests to a colo server, instead of the server's own, such as that of a
	// proxy in front of it; nil = to the server's own address. It is called for each request, by several goroutines at once.
	Via func(peer.Server) (address string)

	clientTLS peertls.CertificateFiles // of the listener for clients; no document may name them

	NoLinks bool // each request to another node has a connection of its own: see [peer.Client.Multiplex]
}

// Running describes a node that serves requests.
type Running struct {
	Node    string
	Address string // host:port of the listener for requests
	Admin   string // host:port of the admin listener
	DataDir string
	Do      peer.Func // of a colo server, for an entry in the same process; see [EntryConfig.Local]
	Boot    string    // of a colo server: the id of its process

	Maintenance *Maintenance // drains the node, and takes it back
}

// runtime is what both kinds of nodes are built on, from the etcd client to the admin listener.
type runtime struct {
	config   Config
	client   *clientv3.Client
	watcher  documents
	source   string // of the documents, for operators; empty = etcd
	log      *journal.Log
	sinks    *shippers
	events   *query.Page // of the log
	metrics  *metrics.Registry
	tracer   *tracing.Tracer // nil = the environment asks for no traces
	requests net.Listener
	admin    net.Listener
	pages    adminServer
	api      http.Handler // nil without tokens
	tokens   *api.Tokens  // of the admin API; nil = the node has none

	limiter *shared.Limiter // of an entry; nil for a colo server

	certificates []func() []CertificateState // which may be renewed
	acme         *acmecert.Source            // nil without
	entry        *entry.Entry                // nil for a colo server
	siblings     *siblings                   // nil for an entry
	colo         *colo.Server                // nil for an entry
	behalf       *behalf                     // nil for an entry, and for a process that serves one place

	maintenance *Maintenance

	returned      chan struct{} // closed once workers have had the time to come back after a restart; nil = none is waited for
	ready         func() error  // why the node is not ready; set with the pages
	unseen        []fleet.Kind  // documents that the node does not watch; see [problems.Scope]
	tableProblems tableProblems
	shared        sharedEngines
	keys          *fleetKeys // nil for a process that has no other nodes
}

// documents fills the table of a node, from etcd or from files.
type documents interface {
	Run(context.Context) error
	Table() *fleet.Table        // the newest; empty before the first load
	Ready() <-chan struct{}     // closed when the first table is there
	Changed() <-chan struct{}   // closed when the next table is there
	State() fleet.WatchState    // how fresh the table is
	Watches(key string) bool    // whether a document with this key would come into the table
	MarkDead(keys ...string)    // says that those who registered these documents do not live any more
	MarkRevoked(keys ...string) // says that these engines were registered by API keys that are not valid any more
}

// openRuntime opens everything that a node needs before it can serve, and watches the documents of some kinds in etcd, and the change that is
// staged on the node, whose own document has the key own. service is what traces call the node. close closes what was opened, also after an
// error.
func openRuntime(c Config, service, own string, kinds []string) (*runtime, error) {
	r, err := openListeners(c, service)
	if err != nil {
		return r, err
	}
	if r.keys, err = openFleetKeys(&r.config); err != nil {
		return r, err
	}
	if r.client, err = etcd.Dial(c.Etcd); err != nil {
		return r, fmt.Errorf("flag -etcd: %w", err)
	}
	r.watch(etcd.NewWatcher(etcd.Config{
		Client: r.client, Prefix: Prefix, Kinds: kinds, Staged: etcd.StagedKey(own), Cache: c.file("table"), Logger: c.Logger,
	}))
	return r, nil
}

// openListeners opens what needs no documents: the event log, the exporter of traces, which call the node a
// service of this name, and the listeners. close closes them, also after an error.
func openListeners(c Config, service string) (*runtime, error) {
	r := &runtime{config: c, metrics: metrics.NewRegistry(), maintenance: &Maintenance{node: c.Node, logger: c.Logger}}
	var err error
	if r.log, err = journal.Open(journal.Config{Dir: c.DataDir, Node: c.Node, Logger: c.Logger}); err != nil {
		return r, fmt.Errorf("cannot open the event log (flag -data-dir): %w", err)
	}
	r.events = query.NewPage(c.DataDir, c.Node)
	if r.tracer, err = tracing.Open(tracing.Node{Service: service, Name: c.Node, Version: Version(), Logger: c.Logger}); err != nil {
		return r, err
	}
	if r.requests, err = server.Listen(c.Listen); err != nil {
		return r, fmt.Errorf("cannot listen for requests (flag -listen): %w", err)
	}
	if r.admin, err = net.Listen("tcp", c.Admin); err != nil {
		return r, fmt.Errorf("cannot listen for the admin pages (flag -admin): %w", err)
	}
	r.sinks = r.newShippers()
	metrics.RegisterEvents(r.metrics, r.log.Stats)
	metrics.RegisterSinks(r.metrics, r.sinks.stats)
	metrics.RegisterBuild(r.metrics, build())
	if r.tracer != nil {
		metrics.RegisterSpans(r.metrics, func() metrics.Spans { return metrics.Spans(r.tracer.Stats()) })
	}
	return r, nil
}

// watch sets where the documents come from.
func (r *runtime) watch(d documents) {
	r.watcher = d
	metrics.RegisterConfig(r.metrics, func() metrics.ConfigState {
		s := r.watcher.State()
		return metrics.ConfigState{Revision: s.Revision, Age: s.Age, Tables: s.Tables, Rejected: len(s.Rejected), Conflicts: len(s.Conflicts),
			PendingDeletions: len(s.PendingDeletions), ExpiredLeases: len(s.ExpiredLeases)}
	})
}

// file returns the path of a JSON file of this node in its data directory, or "" if it has none. openRuntime locks the
// directory, so that no earlier process of the node still uses it.
func (c *Config) file(name string) string {
	if c.DataDir == "" {
		return ""
	}
	return filepath.Join(c.DataDir, name+"-"+c.Node+".json")
}

func (r *runtime) close() {
	if r.client != nil {
		_ = r.client.Close()
	}
	// The servers close their listeners. These calls are for a start that failed.
	if r.acme != nil {
		_ = r.acme.Close()
	}
	if r.requests != nil {
		_ = r.requests.Close()
	}
	if r.admin != nil && !r.pages.started() {
		_ = r.admin.Close()
	}
	if r.events != nil {
		r.events.Close()
	}
	r.tracer.Close()
	if err := r.log.Close(); err != nil {
		r.config.Logger.Error("cannot close the event log", "error", err)
	}
	if err := r.pages.end(); err != nil {
		r.config.Logger.Error("cannot end the admin pages", "error", err)
	}
}

func (r *runtime) running() Running {
	return Running{
		Node: r.config.Node, Address: r.requests.Addr().String(), Admin: r.admin.Addr().String(), DataDir: r.config.DataDir,
		Maintenance: r.maintenance,
	}
}

// serveAdmin serves the admin listener until the runtime is closed. If that fails, the node has to stop.
func (r *runtime) serveAdmin(t tasks, c admin.Config) {
	c.Metrics = r.metrics
	c.Losses = r.log.Problems
	r.ready, c.Problems = c.Ready, r.readyLines
	c.Fleet = func() any { return r.fleetState() }
	c.Config = func() any { return r.configPage() }
	metrics.RegisterProblems(r.metrics, r.countProblems)
	c.Hosts, c.API, c.Events = r.config.ownHosts(), r.api, r.events
	r.pages.serve(r.admin, admin.Handler(c), r.config.Logger)
	t.Go(func() error { return r.pages.wait(t.ctx) })
}

// awaitTable waits for the first table of etcd. It calls late, possibly several times, if that takes a while.
func (r *runtime) awaitTable(ctx context.Context, late func()) error {
	wait := time.NewTimer(tableWarning)
	defer wait.Stop()
	for {
		select {
		case <-r.watcher.Ready():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
		}
		r.config.Logger.Warn("no documents yet; waiting for etcd", "etcd", r.config.Etcd)
		late()
		wait.Reset(tableWarningAgain)
	}
}

// starting reports whether the node still waits for its first table, or for its workers.
func (r *runtime) starting() bool {
	select {
	case <-r.watcher.Ready():
	default:
		return true
	}
	if r.returned == nil {
		return false
	}
	select {
	case <-r.returned:
		return false
	default:
		return true
	}
}

// incidents returns what reports the incidents of a colo's engines.
func (r *runtime) incidents(colo string) *incidents.Reporter {
	return incidents.New(incidents.Config{Colo: colo, Node: r.config.Node, Table: r.watcher.Table, Changed: r.watcher.Changed, Append: r.log.Append})
}

// encode returns the document of a node as JSON.
func encode(document any) []byte {
	b, err := json.Marshal(document)
	if err != nil {
		panic("node: " + err.Error()) // a struct of strings and numbers
	}
	return b
}
