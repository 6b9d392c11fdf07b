package durability_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/internal/etcdtest"
	"colonnade/internal/fleettest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// A node that starts while etcd is away serves from the documents that it has saved, and registers when etcd is back.
func TestStartWithoutStore(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t)
	sim := simengine.New(fleettest.QuickEngine(8))
	engine := httptest.NewServer(sim)
	t.Cleanup(func() { engine.Close(); sim.Close() })
	n := &nodes{t: t, config: node.Config{
		Etcd: []string{"http://" + store.Address}, Keys: hop.RandomKeys(), DataDir: t.TempDir(), Drain: time.Second, Logger: slog.New(slog.DiscardHandler),
	}, coloAt: reserve(t), entryAt: reserve(t)}
	if testing.Verbose() {
		n.config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	f := &fleettest.Fleet{Fleet: &onebox.Fleet{Etcd: n.config.Etcd[0]}, T: t, Client: &http.Client{}}
	t.Cleanup(f.Client.CloseIdleConnections)
	o := f.Operator()
	o.Put("key: colos/ams\n---\nkey: models/demo-chat\npool: demo\n---\nkey: endpoints/ams/one\npool: demo\nurl: " + engine.URL)
	served := func() bool { return f.RawChat(fleettest.ChatBody(2, true)).Status == 200 }

	stop := n.start(f)
	testkit.WaitFor(t, "a request to be served", served)
	testkit.WaitFor(t, "the nodes to have saved their tables", func() bool { return n.saved("ams-1") && n.saved("entry-1") })
	store.Stop()
	stop()

	began := time.Now()
	stop = n.start(f)
	defer func() { stop() }()
	t.Logf("started without etcd in %v", time.Since(began).Round(time.Millisecond))
	if !served() {
		t.Error("a request is not served from the saved table")
	}
	if age := youngestConfig(f); age <= 0 {
		t.Errorf("the age is %v", age)
	}
	c := f.Drive(2, fleettest.AlternatingBodies("demo-chat"))
	store.Restart(t)
	o = f.Operator()
	testkit.Within(t, 10*time.Second, "both to be registered", func() bool {
		there := registered(o)
		return there["servers/ams/ams-1"] > 0 && there["entries/entry-1"] > 0
	})
	o.Put("key: models/after\npool: demo")
	testkit.Within(t, 10*time.Second, "the new model to be served", func() bool {
		return f.RawChat(`{"model":"after","max_tokens":1,"messages":[]}`).Status == 200
	})
	c.Check()
	expectIdle(f)
}

// nodes is a colo server and an entry that are started more than once, at the same addresses.
type nodes struct {
	t               *testing.T
	config          node.Config
	coloAt, entryAt string
}

// start starts both, waits until they serve, and sets their addresses in f.
func (n *nodes) start(f *fleettest.Fleet) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	colo, entry := n.config, n.config
	colo.Node, colo.Listen, colo.Admin = "ams-1", n.coloAt, "127.0.0.1:0"
	entry.Node, entry.Listen, entry.Admin = "entry-1", n.entryAt, "127.0.0.1:0"
	started, ended := make(chan node.Running, 2), make(chan error, 2)
	go func() {
		ended <- node.RunColo(ctx, node.ColoConfig{Config: colo, Colo: "ams"}, func(r node.Running) { started <- r })
	}()
	go func() {
		ended <- node.RunEntry(ctx, node.EntryConfig{Config: entry, Open: true}, func(r node.Running) { started <- r })
	}()
	for range 2 {
		select {
		case r := <-started:
			if r.Node == "entry-1" {
				f.Entry = r
			} else {
				f.Colos = []onebox.ColoNode{{Colo: "ams", Running: r}}
			}
		case err := <-ended:
			cancel()
			n.t.Fatalf("a node ended with: %v", err)
		case <-time.After(testkit.Timeout):
			cancel()
			n.t.Fatal("the nodes have not started in time")
		}
	}
	return func() {
		f.Client.CloseIdleConnections()
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				n.t.Errorf("a node ended with: %v", err)
			}
		}
	}
}

// saved reports whether a node has the colo server in its saved table.
func (n *nodes) saved(name string) bool {
	text, _ := os.ReadFile(filepath.Join(n.config.DataDir, "table-"+name+".json"))
	return strings.Contains(string(text), string(fleet.KindServer)+"/ams/ams-1")
}

// reserve returns an address that was free a moment ago, with a port that the kernel assigns to no listener on port 0.
func reserve(t testing.TB) string {
	t.Helper()
	for range 100 {
		if ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.N(2000))); err == nil {
			defer ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}
