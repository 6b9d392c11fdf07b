package onebox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/liveness"
	"colonnade/forwarding/peertls"
	"colonnade/internal/faultproxy"
	"colonnade/internal/simengine"
	"colonnade/node"
)

// filesPerConn is how many files of the process a client's connection to the entry may need: its own, and both ends of those to a colo
// server and to a simulated engine.
const filesPerConn = 5

// filesPerProxiedConn is filesPerConn where proxies stand between the entry and a colo, and between that colo and another to which it
// forwards.
const filesPerProxiedConn = 11

// Config describes a fleet. The zero value of every field but Colos and Listen is valid.
type Config struct {
	Listen string // of the entry
	Admin  string // of the entry; empty = a free port of loopback
	// AdminTokens is that of [node.Config], for all nodes.
	AdminTokens string
	Etcd        string // host:port; empty = 127.0.0.1:2379, or a free port if that is taken
	Dir         string // for etcd's data, events and keys; empty = a temporary directory, removed at the end
	Colos       []string

	Servers map[string]int // colo servers of each colo, at most [MaxServers]; a colo that is not in it has one

	Engines int // simulated engines in each colo
	Engine  simengine.Config

	EngineURL   string // of a real engine, which is the only one, in the first colo
	EngineModel string // its model; empty = all that it lists

	EtcdURL string // of an external etcd; empty = the fleet embeds one

	CredentialsDir string // of all nodes, see [node.Config]

	TLS     peertls.CertificateFiles             // of the entry, for clients; none = plain HTTP
	PeerTLS func(peertls.Identity) peertls.Files // of a node; nil = plain HTTP between nodes
	KeysOf  func(node string) *hop.Keys          // the keys of the fleet as a node reads them when it starts; nil = one random key

	MaxConnsPerIP int // limit of connections to the entry per address, see [node.EntryConfig]; 0 = its limit for all addresses together

	NoGossip bool // between the servers of a colo

	// Latency, unless it is nil, has proxies carry the connections between the entry and colos, and between colos: see [Fleet.Proxy].
	Latency Latency

	Direct bool // the entry calls the colo servers as functions, without HTTP in between; not if there is a Latency
	Serve  bool // one process is the entry and the server of the only colo, without etcd and with documents in files: see [node.RunServe]

	Open            bool
	Drain           time.Duration
	WriteStall      time.Duration             // see [node.Config]
	BodyMemory      int64                     // likewise
	MetricsAccounts int                       // likewise
	Liveness        liveness.Timings          // likewise
	NoLinks         bool                      // see [node.Config]
	Documents       []document.Raw            // after the demo's own, which they may replace
	Author          etcd.Author               // of the documents, in the history
	Progress        func(string)              // called with each step of the start; nil = not called
	Logger          func(string) *slog.Logger // returns a node's logger; nil = nothing is logged
}

// Fleet is a running fleet.
type Fleet struct {
	Etcd      string // URL; empty if one process is the fleet
	Documents string // directory of its files with documents; empty if they are in etcd
	Dir       string
	secure    bool         // clients speak HTTPS with the entry
	Entry     node.Running // with Config.Serve, the same as the only one of Colos
	Colos     []ColoNode
	Engines   []EngineNode
	client    *clientv3.Client // nil if one process is the fleet
	author    etcd.Author      // of documents
	Keys      *hop.Keys        // sign and verify the hop tokens between nodes

	startServer func(colo, node string) (ColoNode, error)
	links       *links

	mu    sync.Mutex       // guards the field below
	parts map[string]*part // by node name, or "engine COLO/ID"
}

// ColoNode is one colo server.
type ColoNode struct {
	Colo string
	node.Running
}

// EngineNode is one engine. Simulated is nil for a real one.
type EngineNode struct {
	Colo, ID, URL string
	Simulated     *simengine.Engine
}

// Apply validates documents and writes them to the fleet's etcd, or to its files.
func (f *Fleet) Apply(ctx context.Context, docs []document.Raw) error {
	if f.client == nil {
		return editFiles(ctx, f.Documents, docs)
	}
	writer := etcd.Writer{Client: f.client, Prefix: node.Prefix, Author: f.author}
	_, err := writer.Apply(ctx, docs)
	return err
}

// URL returns the base URL for OpenAI clients on this machine.
func (f *Fleet) URL() string {
	scheme := "http"
	if f.secure {
		scheme = "https"
	}
	return scheme + "://" + Local(f.Entry.Address) + "/v1"
}

// Local returns the host:port under which clients on this machine reach a listener. A listener on all addresses is
// reached on loopback.
func Local(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" && !net.ParseIP(host).IsUnspecified() {
		return address
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// Run runs a fleet until ctx ends, or until a part of it fails. It calls started as soon as requests are served.
func Run(ctx context.Context, c Config, started func(*Fleet)) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	keys := hop.RandomKeys()
	b := &allInOne{config: c, keys: keys, fleet: &Fleet{Keys: keys, author: c.Author, parts: map[string]*part{}}, fail: fail}
	b.fleet.startServer = b.startColo
	b.fleet.links = &links{config: &b.config, warn: b.logger("latency").Warn, proxies: map[link]*faultproxy.Proxy{}}
	defer func() { err = errors.Join(err, b.stop()) }()
	if err := b.start(ctx); err != nil {
		if ctx.Err() != nil {
			return failure(ctx)
		}
		return err
	}
	started(b.fleet)
	<-ctx.Done()
	if failure(ctx) == nil {
		b.progress(fmt.Sprintf("stopping: requests in flight have at most %s", c.Drain))
	}
	return failure(ctx)
}

// failure returns the error of the part that ended ctx; nil if the caller of Run ended it.
func failure(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// allInOne is a fleet with its teardown, the last step first.
type allInOne struct {
	config   Config
	keys     *hop.Keys
	fleet    *Fleet
	fail     context.CancelCauseFunc
	teardown []func() error
	servers  coloServers
}

// start starts the parts of the fleet, each after the parts that it depends on.
func (b *allInOne) start(ctx context.Context) error {
	if err := errors.Join(b.config.checkServers(), b.config.checkServe(), b.config.Latency.check(b.config.Colos)); err != nil {
		return err
	}
	b.teardown = append(b.teardown, b.fleet.links.close)
	if err := b.startDir(); err != nil {
		return err
	}
	if !b.config.Serve {
		b.progress("starting etcd")
		if err := b.startEtcd(ctx); err != nil {
			return err
		}
	}
	b.progress("starting engines")
	docs, err := b.startEngines(ctx)
	if err != nil {
		return err
	}
	if b.config.Serve {
		return b.startServe(ctx, override(docs, b.config.Documents))
	}
	return b.startNodes(ctx, docs)
}

// startNodes writes the documents to etcd, and starts the colo servers and the entry.
func (b *allInOne) startNodes(ctx context.Context, docs []document.Raw) (err error) {
	if docs, err = b.notStored(ctx, docs); err != nil {
		return err
	}
	if err := b.fleet.Apply(ctx, override(docs, b.config.Documents)); err != nil {
		return err
	}
	b.progress("starting colo servers")
	if err := b.startColos(); err != nil {
		return err
	}
	b.progress("starting the entry")
	if err := b.startEntry(ctx); err != nil {
		return fmt.Errorf("entry: %w", err)
	}
	return b.awaitReady(ctx)
}

func (b *allInOne) stop() error {
	var all []error
	for i := len(b.teardown) - 1; i >= 0; i-- {
		all = append(all, b.teardown[i]())
	}
	return errors.Join(all...)
}

func (b *allInOne) progress(what string) {
	if b.config.Progress != nil {
		b.config.Progress(what)
	}
}

func (b *allInOne) logger(name string) *slog.Logger {
	if b.config.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return b.config.Logger(name)
}

func (b *allInOne) startDir() error {
	b.fleet.Dir = b.config.Dir
	if b.fleet.Dir != "" {
		if err := os.MkdirAll(b.fleet.Dir, 0o700); err != nil {
			return err
		}
		return b.lockDir()
	}
	dir, err := os.MkdirTemp("", "colonnade-")
	if err != nil {
		return err
	}
	b.fleet.Dir = dir
	b.teardown = append(b.teardown, func() error { return os.RemoveAll(dir) })
	return nil
}

// lockDir keeps a second fleet out of the directory: etcd would wait for its own lock there forever, without a message.
func (b *allInOne) lockDir() error {
	file, err := os.OpenFile(filepath.Join(b.fleet.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		b.teardown = append(b.teardown, file.Close)
		return nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("directory %s is in use by another fleet; end that one first, or choose another directory (flag -dir)", b.fleet.Dir)
	}
	return fmt.Errorf("cannot lock directory %s: %w", b.fleet.Dir, err)
}

// node returns what every node needs, of one at a place.
func (b *allInOne) node(name, place, listen, admin string) node.Config {
	c := node.Config{
		Node: name, Listen: listen, Admin: admin, AdminTokens: b.config.AdminTokens, Etcd: []string{b.fleet.Etcd}, Keys: b.keysOf(name), Drain: b.config.Drain,
		DataDir: filepath.Join(b.fleet.Dir, "nodes"), CredentialsDir: b.config.CredentialsDir, WriteStall: b.config.WriteStall, BodyMemory: b.config.BodyMemory, MetricsAccounts: b.config.MetricsAccounts, Liveness: b.config.Liveness, NoLinks: b.config.NoLinks,
		FilesPerConn: filesPerConn, Logger: b.logger(name),
	}
	if b.config.Latency != nil {
		c.FilesPerConn, c.Via = filesPerProxiedConn, b.fleet.links.via(place)
	}
	return c
}

// adminAddress returns the address of the entry's admin listener.
func (b *allInOne) adminAddress() string { return cmp.Or(b.config.Admin, "127.0.0.1:0") }

// connsPerIP returns the limit of connections to the entry per address. All clients may have one address.
func (b *allInOne) connsPerIP() int { return cmp.Or(b.config.MaxConnsPerIP, math.MaxInt) }

func (b *allInOne) startEntry(ctx context.Context) error {
	config := node.EntryConfig{
		Open: b.config.Open, TLS: b.config.TLS, MaxConnsPerIP: b.connsPerIP(),
		Config: b.node("entry-1", EntryPlace, b.config.Listen, b.adminAddress()),
	}
	if b.config.Latency != nil {
		config.Region = b.config.Latency.region(EntryPlace, b.config.Colos)
	}
	config.PeerTLS = b.peerTLS(peertls.Identity{Role: peertls.RoleEntry, Node: config.Node})
	if b.config.Direct && b.config.Latency == nil {
		config.Local = b.servers.local
	}
	b.fleet.secure = b.config.TLS.Cert != ""
	return b.run(config.Node, func(ctx context.Context, ready func()) error {
		return node.RunEntry(ctx, config, func(r node.Running) {
			b.fleet.Entry = r
			ready()
		})
	})
}

// keysOf returns the keys of the fleet for a node that starts.
func (b *allInOne) keysOf(node string) *hop.Keys {
	if b.config.KeysOf == nil {
		return b.keys
	}
	return b.config.KeysOf(node)
}

// peerTLS returns the files of one node.
func (b *allInOne) peerTLS(node peertls.Identity) peertls.Files {
	if b.config.PeerTLS == nil {
		return peertls.Files{}
	}
	return b.config.PeerTLS(node)
}
