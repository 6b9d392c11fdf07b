package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime/debug"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/admin"
	"colonnade/analytics/journal"
	"colonnade/analytics/metrics"
	"colonnade/discovery/etcd"
	"colonnade/entry"
	"colonnade/forwarding"
)

const (
	// Prefix is where the fleet's documents stand in etcd.
	Prefix = etcd.DefaultPrefix
	// leaseTTL is how long a node's document outlives the node.
	leaseTTL = 5 * time.Second
	// lookForDeparted is how often a colo server looks whether an endpoint that has lost its lease has died.
	lookForDeparted = time.Second
	// lateAfter is how long a node waits for its first table before it says so, and stillLate until it says so again.
	lateAfter = 2 * time.Second
	stillLate = time.Minute
	// registerAgain is how often a node whose name another one has looks whether it is free.
	registerAgain = 10 * time.Second
)

// Config is what every node needs.
type Config struct {
	Node    string // its name; part of keys in etcd
	Listen  string // host:port of the listener for requests
	Admin   string // host:port of the admin listener
	Address string // host:port under which others reach Listen; empty = what Listen is bound to
	Etcd    []string
	Dir     string // for events, and the last good documents; empty = nothing is kept
	Keys    *forwarding.Keys
	PeerTLS forwarding.PeerFiles // none = nodes speak plainly to each other
	Drain   time.Duration        // how long running requests may go on after the end was asked for
	Logger  *slog.Logger
	Stall   time.Duration // longest time for one write; 0 = 30 s
}

// Running is a node that serves requests.
type Running struct {
	Node    string
	Address string // host:port of the listener for requests
	Admin   string // host:port of the admin listener
	Events  string // directory below which its events are
}

// parts is what the nodes have in common, from the etcd client to the admin listener.
type parts struct {
	config   Config
	client   *clientv3.Client
	watcher  *etcd.Watcher
	log      *journal.Log
	metrics  *metrics.Registry
	requests net.Listener
	admin    net.Listener
	pages    pages

	certificates []certificate
	unreached    func() []entry.Unreached // nil: of no entry
}

// assemble opens everything that a node needs before it can serve. kinds are the documents it watches. What was opened
// is closed by dismantle, also after an error.
func assemble(c Config, kinds []string) (*parts, error) {
	p := &parts{config: c, metrics: metrics.NewRegistry()}
	var err error
	if p.log, err = journal.Open(journal.Config{Dir: c.Dir, Node: c.Node, Logger: c.Logger}); err != nil {
		return p, fmt.Errorf("cannot open the event log: %w", err)
	}
	if p.requests, err = forwarding.Listen(c.Listen); err != nil {
		return p, fmt.Errorf("cannot listen (flag -listen): %w", err)
	}
	if p.admin, err = net.Listen("tcp", c.Admin); err != nil {
		return p, fmt.Errorf("cannot listen for the admin pages (flag -admin): %w", err)
	}
	if p.client, err = etcd.Dial(c.Etcd); err != nil {
		return p, fmt.Errorf("flag -etcd: %w", err)
	}
	p.watcher = etcd.NewWatcher(etcd.Config{
		Client: p.client, Prefix: Prefix, Kinds: kinds, Cache: cacheFile(c), Logger: c.Logger,
	})
	metrics.RegisterConfig(p.metrics, func() metrics.ConfigState {
		s := p.watcher.State()
		return metrics.ConfigState{Revision: s.Revision, Age: s.Age, Rejected: len(s.Rejected), Conflicts: len(s.Conflicts),
			Held: len(s.Held), Suspect: len(s.Suspect)}
	})
	metrics.RegisterEvents(p.metrics, p.log.Stats)
	return p, nil
}

func cacheFile(c Config) string {
	if c.Dir == "" {
		return ""
	}
	return filepath.Join(c.Dir, "table-"+c.Node+".json")
}

// leaseFile remembers the registration of a node that is killed. The lock on its directory, taken by assemble, shows
// that no earlier run of it lives.
func leaseFile(c Config) string {
	if c.Dir == "" {
		return ""
	}
	return filepath.Join(c.Dir, "lease-"+c.Node+".json")
}

func (p *parts) dismantle() {
	if p.client != nil {
		_ = p.client.Close()
	}
	// The servers close their listeners; these are for a start that failed.
	if p.requests != nil {
		_ = p.requests.Close()
	}
	if p.admin != nil && !p.pages.served() {
		_ = p.admin.Close()
	}
	if err := p.log.Close(); err != nil {
		p.config.Logger.Error("cannot close the event log", "reason", err)
	}
	if err := p.pages.end(); err != nil {
		p.config.Logger.Error("cannot end the admin pages", "reason", err)
	}
}

func (p *parts) running() Running {
	return Running{
		Node: p.config.Node, Address: p.requests.Addr().String(), Admin: p.admin.Addr().String(), Events: p.config.Dir,
	}
}

// serveAdmin answers on the admin listener until all is dismantled. If that fails, so does the node.
func (p *parts) serveAdmin(b background, c admin.Config) {
	c.Metrics = p.metrics
	c.Fleet = func() any { return p.watcher.Table().Dump(p.watcher.Wants) }
	c.Config = func() any { return p.configState() }
	p.pages.serve(p.admin, admin.Handler(c))
	b.Go(func() error { return p.pages.failed(b.context) })
}

// ready waits for the first table. It calls late once if that takes a while, and says so again and again.
func (p *parts) ready(ctx context.Context, late func()) error {
	wait := time.NewTimer(lateAfter)
	defer wait.Stop()
	for {
		select {
		case <-p.watcher.Ready():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-wait.C:
		}
		p.config.Logger.Warn("there are no documents yet: waiting for etcd", "etcd", p.config.Etcd)
		late()
		wait.Reset(stillLate)
	}
}

// starting says that the first table is still to come.
func (p *parts) starting() bool {
	select {
	case <-p.watcher.Ready():
		return false
	default:
		return true
	}
}

// document encodes what a node says of itself.
func document(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("node: " + err.Error()) // a struct of strings and numbers
	}
	return b
}

// boot is another name at each start.
func boot() string { return rand.Text()[:13] }

// Version is that of the software, as the Go tool has stamped it.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
