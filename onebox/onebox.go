package onebox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/forwarding/peertls"
	"colonnade/internal/simengine"
	"colonnade/node"
)

// Config says what the fleet consists of. The zero value of each field but Colos and Listen is of use.
type Config struct {
	Listen string // of the entry
	Admin  string // of the entry; empty = a free port of loopback
	Etcd   string // host:port; empty = 127.0.0.1:2379, or a free port if that is taken
	Dir    string // for etcd's data, events and keys; empty = a temporary directory, removed at the end
	Colos  []string

	Engines int // simulated ones in each colo
	Engine  simengine.Config

	EngineURL   string // of a real engine, which then stands in the first colo instead of simulated ones
	EngineModel string // its model; empty = what it lists

	EtcdURL string // of an etcd that runs elsewhere; empty = the fleet has one of its own

	TLS     peertls.CertificateFiles             // of the entry, for clients; none = plain HTTP
	PeerTLS func(peertls.Identity) peertls.Files // of a node; nil = they speak plainly to each other

	PerAddress int // of connections to the entry, see [node.EntryConfig]; 0 = as many as it takes in all

	Direct bool // the entry calls the colo servers as functions, without HTTP in between

	Open      bool
	Drain     time.Duration
	Stall     time.Duration             // see [node.Config]
	Documents []document.Raw            // after the demo's own, which they may replace
	Progress  func(string)              // what is being waited for; nil = nobody wants to know
	Logger    func(string) *slog.Logger // a node's own; nil = nothing is logged
}

// Fleet is a fleet that runs.
type Fleet struct {
	Etcd    string // URL
	Dir     string
	secure  bool // clients speak HTTPS with the entry
	Entry   node.Running
	Colos   []ColoNode
	Engines []EngineNode
	client  *clientv3.Client
	Keys    *hop.Keys        // sign and verify the hop tokens between its nodes
	parts   map[string]*part // by the name of the node, or "engine COLO/ID"
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

// Apply writes documents to the fleet's etcd, after it has checked them.
func (f *Fleet) Apply(ctx context.Context, docs []document.Raw) error {
	_, err := etcd.Apply(ctx, f.client, node.Prefix, docs)
	return err
}

// URL is the base URL for OpenAI clients on this machine.
func (f *Fleet) URL() string {
	scheme := "http"
	if f.secure {
		scheme = "https"
	}
	return scheme + "://" + Local(f.Entry.Address) + "/v1"
}

// Local returns the host:port under which clients on this machine reach a listener: one on all addresses is on
// loopback.
func Local(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host != "" && !net.ParseIP(host).IsUnspecified() {
		return address
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// Run runs a fleet until ctx ends, or until a part of it fails. started is called once a request would be served.
func Run(ctx context.Context, c Config, started func(*Fleet)) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	keys := hop.RandomKeys()
	b := &box{config: c, keys: keys, fleet: &Fleet{Keys: keys, parts: map[string]*part{}}, fail: fail}
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
		b.progress(fmt.Sprintf("ending: running requests have at most %s", c.Drain))
	}
	return failure(ctx)
}

// failure is what made ctx end, unless it was whoever runs the fleet.
func failure(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// box is a fleet and what must be taken down after it, the last first.
type box struct {
	config Config
	keys   *hop.Keys
	fleet  *Fleet
	fail   context.CancelCauseFunc
	down   []func() error
}

// start brings the fleet up, from what is depended on to what depends.
func (b *box) start(ctx context.Context) error {
	if err := b.startDir(); err != nil {
		return err
	}
	b.progress("starting etcd")
	if err := b.startEtcd(ctx); err != nil {
		return err
	}
	b.progress("starting engines")
	docs, err := b.startEngines(ctx)
	if err != nil {
		return err
	}
	if docs, err = b.unkept(ctx, docs); err != nil {
		return err
	}
	if err := b.fleet.Apply(ctx, replaced(docs, b.config.Documents)); err != nil {
		return err
	}
	b.progress("starting colo servers")
	before := len(b.down)
	for _, name := range b.config.Colos {
		if err := b.startColo(ctx, name); err != nil {
			return fmt.Errorf("colo server %s-1: %w", name, err)
		}
	}
	b.endAtOnce(before)
	b.progress("starting the entry")
	if err := b.startEntry(ctx); err != nil {
		return fmt.Errorf("entry: %w", err)
	}
	return b.awaitReady(ctx)
}

// endAtOnce makes one end of all that stand from first on: each waits for a while until nobody comes any more.
func (b *box) endAtOnce(first int) {
	ends := slices.Clone(b.down[first:])
	b.down = append(b.down[:first], func() error {
		all := make([]error, len(ends))
		var ending sync.WaitGroup
		for i, end := range ends {
			ending.Go(func() { all[i] = end() })
		}
		ending.Wait()
		return errors.Join(all...)
	})
}

func (b *box) stop() error {
	var all []error
	for i := len(b.down) - 1; i >= 0; i-- {
		all = append(all, b.down[i]())
	}
	return errors.Join(all...)
}

func (b *box) progress(what string) {
	if b.config.Progress != nil {
		b.config.Progress(what)
	}
}

func (b *box) logger(name string) *slog.Logger {
	if b.config.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return b.config.Logger(name)
}

func (b *box) startDir() error {
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
	b.down = append(b.down, func() error { return os.RemoveAll(dir) })
	return nil
}

// lockDir keeps a second fleet out of the directory: etcd would wait for its own lock there for ever, and say nothing.
func (b *box) lockDir() error {
	file, err := os.OpenFile(filepath.Join(b.fleet.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		b.down = append(b.down, file.Close)
		return nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("directory %s is in use by another fleet; end that one first, or choose another directory (flag -dir)", b.fleet.Dir)
	}
	return fmt.Errorf("cannot lock directory %s: %w", b.fleet.Dir, err)
}

func (b *box) node(name, listen, admin string) node.Config {
	return node.Config{
		Node: name, Listen: listen, Admin: admin, Etcd: []string{b.fleet.Etcd}, Keys: b.keys, Drain: b.config.Drain,
		DataDir: filepath.Join(b.fleet.Dir, "nodes"), WriteStall: b.config.Stall, Logger: b.logger(name),
	}
}

func (b *box) startColo(ctx context.Context, name string) error {
	config := node.ColoConfig{Colo: name, Config: b.node(name+"-1", "127.0.0.1:0", "127.0.0.1:0")}
	config.PeerTLS = b.peerTLS(peertls.Identity{Role: peertls.RoleColo, Colo: name, Node: config.Node})
	return b.run(config.Node, func(ctx context.Context, ready func()) error {
		return node.RunColo(ctx, config, func(r node.Running) {
			b.fleet.Colos = append(b.fleet.Colos, ColoNode{Colo: name, Running: r})
			ready()
		})
	})
}

func (b *box) startEntry(ctx context.Context) error {
	admin := b.config.Admin
	if admin == "" {
		admin = "127.0.0.1:0"
	}
	config := node.EntryConfig{
		Open: b.config.Open, TLS: b.config.TLS, MaxConnsPerIP: b.config.PerAddress,
		Config: b.node("entry-1", b.config.Listen, admin),
	}
	config.PeerTLS = b.peerTLS(peertls.Identity{Role: peertls.RoleEntry, Node: config.Node})
	if b.config.Direct {
		config.Local = b.local
	}
	b.fleet.secure = b.config.TLS.Cert != ""
	return b.run(config.Node, func(ctx context.Context, ready func()) error {
		return node.RunEntry(ctx, config, func(r node.Running) {
			b.fleet.Entry = r
			ready()
		})
	})
}

// local returns the way to a colo server that was started here.
func (b *box) local(s *fleet.Server) peer.Func {
	for _, c := range b.fleet.Colos {
		if c.Node == s.Node {
			return c.Do
		}
	}
	return nil
}

// peerTLS are the files of one node.
func (b *box) peerTLS(node peertls.Identity) peertls.Files {
	if b.config.PeerTLS == nil {
		return peertls.Files{}
	}
	return b.config.PeerTLS(node)
}

// awaitReady waits until the entry knows every colo server. That it is ready says that it knows one.
func (b *box) awaitReady(ctx context.Context) error {
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for {
		_, ready := read(ctx, client, "http://"+Local(b.fleet.Entry.Admin)+"/health/ready")
		table, known := read(ctx, client, "http://"+Local(b.fleet.Entry.Admin)+"/debug/fleet")
		for _, s := range b.fleet.Colos {
			known = known && strings.Contains(table, fmt.Sprintf("%q", "servers/"+s.Colo+"/"+s.Node))
		}
		if ready && known {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// read returns the text of a page; false is one that is not there (yet).
func read(ctx context.Context, client *http.Client, url string) (string, bool) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", false
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", false
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err == nil && answer.StatusCode == http.StatusOK
}
