package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/analytics/journal"
	"colonnade/colo"
	"colonnade/forwarding/hop"
	"colonnade/internal/etcdtest"
	"colonnade/internal/simengine"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// config returns the settings of a node with a data directory of its own.
func config(t *testing.T, s *etcdtest.Server, name string) node.Config {
	return node.Config{
		Node: name, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Etcd: []string{"http://" + s.Address}, DataDir: t.TempDir(),
		Keys: hop.RandomKeys(), Drain: time.Second, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// recordLog also records the node's log.
func recordLog(t *testing.T, c *node.Config) *testkit.SyncBuffer {
	logged := &testkit.SyncBuffer{}
	c.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), logged), nil))
	return logged
}

// start runs a node until the test ends or stop is called; it returns once the node serves.
func start(t *testing.T, run func(context.Context, func(node.Running)) error) (r node.Running, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan node.Running, 1), make(chan error, 1)
	go func() { ended <- run(ctx, func(r node.Running) { started <- r }) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the node ended with: %v", err)
		}
	}
	t.Cleanup(stop)
	select {
	case r := <-started:
		return r, stop
	case err := <-ended:
		ended <- err
		t.Fatalf("cannot start the node: %v", err)
	case <-time.After(testkit.Timeout):
		t.Fatal("the node is not up in time")
	}
	return node.Running{}, stop
}

func startColo(t *testing.T, c node.Config) (r node.Running, stop func()) {
	t.Helper()
	return start(t, func(ctx context.Context, started func(node.Running)) error {
		return node.RunColo(ctx, node.ColoConfig{Config: c, Colo: "ams"}, started)
	})
}

func startEntry(t *testing.T, c node.Config) (r node.Running, stop func()) {
	t.Helper()
	return start(t, func(ctx context.Context, started func(node.Running)) error {
		return node.RunEntry(ctx, node.EntryConfig{Config: c}, started)
	})
}

// registered returns whether a key is in etcd, and under which lease.
func registered(t *testing.T, client *clientv3.Client, key string) (lease clientv3.LeaseID, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	answer, err := client.Get(ctx, node.Prefix+key)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Kvs) == 0 {
		return 0, false
	}
	return clientv3.LeaseID(answer.Kvs[0].Lease), true
}

// leased puts a document under a lease of an hour.
func leased(t *testing.T, client *clientv3.Client, key, value string) clientv3.LeaseID {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	lease, err := client.Grant(ctx, 3600)
	if err == nil {
		_, err = client.Put(ctx, node.Prefix+key, value, clientv3.WithLease(lease.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	return lease.ID
}

// page reads a page of the admin listener.
func page(t *testing.T, r node.Running, path string) string {
	t.Helper()
	status, body := testkit.Get("http://" + r.Admin + path)
	if status == 0 {
		t.Fatal(body)
	}
	return body
}

// An entry that starts while etcd is away, from its saved documents, registers when it is back.
func TestEntryRegistersLater(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	c := config(t, s, "entry-1")
	client := s.Client(t)
	leased(t, client, "models/a", "{}")
	_, stop := startEntry(t, c)
	testkit.WaitFor(t, "registered", func() bool { _, ok := registered(t, client, "entries/entry-1"); return ok })
	testkit.WaitFor(t, "its documents are saved", func() bool { _, err := os.Stat(filepath.Join(c.DataDir, "table-entry-1.json")); return err == nil })
	stop()
	if _, ok := registered(t, client, "entries/entry-1"); ok {
		t.Error("it has left and is still registered")
	}
	s.Stop()
	logged := recordLog(t, &c)
	startEntry(t, c)
	testkit.WaitFor(t, "the first attempt to fail", func() bool { return strings.Contains(logged.String(), "cannot renew the registration") })
	s.Restart(t)
	testkit.WaitFor(t, "registered", func() bool { _, ok := registered(t, client, "entries/entry-1"); return ok })
}

// An entry whose name is taken serves without being registered, and registers when it is free.
func TestEntryWithoutItsName(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	if _, err := client.Put(ctx, node.Prefix+"entries/entry-1", `{"address":"10.0.0.1:8080"}`); err != nil {
		t.Fatal(err)
	}
	c := config(t, s, "entry-1")
	logged := recordLog(t, &c)
	r, _ := startEntry(t, c)
	if got := page(t, r, "/health/live"); got != "live\n" {
		t.Errorf("got %q", got)
	}
	testkit.WaitFor(t, "the first attempt to fail", func() bool { return strings.Contains(logged.String(), "serving without being registered") })
	if lease, ok := registered(t, client, "entries/entry-1"); !ok || lease != 0 {
		t.Errorf("the key of the other node: present %v, lease %x", ok, lease)
	}
	if _, err := client.Delete(ctx, node.Prefix+"entries/entry-1"); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "registered", func() bool { _, ok := registered(t, client, "entries/entry-1"); return ok })
}

// crashed leaves the same state as a killed server: its registration, and the file with its lease.
func crashed(t *testing.T, client *clientv3.Client, c node.Config) clientv3.LeaseID {
	t.Helper()
	key := "servers/ams/" + c.Node
	lease := leased(t, client, key, `{"address":"127.0.0.1:1","boot":"killed"}`)
	file := fmt.Sprintf(`{"key":%q,"lease":%d}`, node.Prefix+key, lease)
	if err := os.WriteFile(filepath.Join(c.DataDir, "lease-"+c.Node+".json"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return lease
}

// A server that comes back after a crash does not wait for its former lease to expire: here, for an hour.
func TestColoAfterCrash(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	c, client := config(t, s, "ams-1"), s.Client(t)
	killed := crashed(t, client, c)
	began := time.Now()
	_, stop := startColo(t, c)
	if took := time.Since(began); took < colo.Linger {
		t.Errorf("it serves after %v, when engines may not have noticed yet that the earlier run is dead", took)
	}
	if lease, ok := registered(t, client, "servers/ams/ams-1"); !ok || lease == killed {
		t.Errorf("lease %x, present %v; it was %x", lease, ok, killed)
	}
	stop()
	if _, err := os.Stat(filepath.Join(c.DataDir, "lease-ams-1.json")); !os.IsNotExist(err) {
		t.Errorf("after it has left, the file of its lease: %v", err)
	}
}

// A colo server that does not serve yet, since it has no table and etcd is away, is not ready.
func TestColoIsNotReadyBeforeItServes(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	c, client := config(t, s, "ams-1"), s.Client(t)
	leased(t, client, "models/a", "{}")
	s.Stop()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Admin = free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	ready := func() int {
		status, _ := testkit.Get("http://" + c.Admin + "/health/ready")
		return status
	}
	ctx, cancel := context.WithCancel(t.Context())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- node.RunColo(ctx, node.ColoConfig{Config: c, Colo: "ams"}, func(node.Running) { close(started) })
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	testkit.WaitFor(t, "its admin pages are served", func() bool { return ready() != 0 })
	if status := ready(); status != http.StatusServiceUnavailable {
		t.Errorf("while it waits for etcd: %d", status)
	}
	s.Restart(t)
	<-started
	if status := ready(); status != http.StatusOK {
		t.Errorf("now that it serves: %d", status)
	}
}

// While another process holds the lock on the data directory, a server does not start, and leaves its lease alone.
func TestColoDoesNotStartBesideItself(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	c, client := config(t, s, "ams-1"), s.Client(t)
	lives := crashed(t, client, c)
	log, err := journal.Open(journal.Config{Dir: c.DataDir, Node: c.Node})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	err = node.RunColo(t.Context(), node.ColoConfig{Config: c, Colo: "ams"}, func(node.Running) { t.Error("it serves") })
	if !errors.Is(err, journal.ErrInUse) {
		t.Errorf("ended with %v", err)
	}
	if lease, ok := registered(t, client, "servers/ams/ams-1"); !ok || lease != lives {
		t.Errorf("lease %x, present %v; it was %x", lease, ok, lives)
	}
}

// engine runs a simulated engine until it is stopped, and counts the requests that it gets.
func engine(t *testing.T) (url string, requests *atomic.Int64, stop func()) {
	t.Helper()
	requests = &atomic.Int64{}
	sim := simengine.New(simengine.Config{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		sim.ServeHTTP(w, r)
	}))
	stop = sync.OnceFunc(func() {
		server.CloseClientConnections()
		server.Close()
		sim.Close()
	})
	t.Cleanup(stop)
	return server.URL, requests, stop
}

// An endpoint with an expired lease is used as long as its engine is healthy, and no longer.
func TestEndpointWithoutLease(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	document := func(url string) string {
		return fmt.Sprintf("{url: %q, pool: p, concurrency: 3, health: {interval: 50ms}}", url)
	}
	url, requests, stop := engine(t)
	lease := leased(t, client, "endpoints/ams/e", document(url))
	r, _ := startColo(t, config(t, s, "ams-1"))
	limit := func() int {
		var pools []struct{ Limit int }
		if err := json.Unmarshal([]byte(page(t, r, "/debug/pools")), &pools); err != nil {
			t.Fatal(err)
		}
		if len(pools) == 0 {
			return 0
		}
		return pools[0].Limit
	}
	testkit.WaitFor(t, "the endpoint is in its pool", func() bool { return limit() == 3 })
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	if _, err := client.Revoke(ctx, lease); err != nil {
		t.Fatal(err)
	}
	suspect := func() bool {
		return strings.Contains(page(t, r, "/metrics"), "colonnade_config_expired_lease_documents 1\n")
	}
	testkit.WaitFor(t, "it is suspect", suspect)
	checks := requests.Load()
	testkit.WaitFor(t, "many health checks", func() bool { return requests.Load() >= checks+30 })
	if !suspect() || limit() != 3 {
		t.Errorf("an engine that is healthy: suspect %v, limit %d", suspect(), limit())
	}
	stop()
	testkit.WaitFor(t, "it is gone", func() bool {
		return !strings.Contains(page(t, r, "/debug/fleet"), "endpoints/ams/e") && !suspect() && limit() == 0
	})
}
