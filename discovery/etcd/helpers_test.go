package etcd_test

import (
	"context"
	"flag"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"colonnade/discovery/etcd"
	"colonnade/internal/etcdtest"
	"colonnade/internal/faultproxy"
	"colonnade/internal/testkit"
)

const (
	prefix  = "/test/v1/"
	silence = 1500 * time.Millisecond
)

func TestMain(m *testing.M) {
	// These tests mostly wait, so many more of them than there are processors may run at once.
	if err := flag.Set("test.parallel", "20"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// startProcesses starts a cluster of processes, and returns a store whose client knows all of them.
func startProcesses(t *testing.T, members int) (*store, []*etcdtest.Process) {
	t.Helper()
	t.Parallel()
	all := etcdtest.StartCluster(t, testkit.EtcdProgram(t), members)
	var addresses []string
	for _, p := range all {
		addresses = append(addresses, p.Address)
	}
	return &store{nil, t, dial(t, addresses...)}, all
}

// store is an etcd with a client that writes to it.
type store struct {
	*etcdtest.Server
	t      *testing.T
	client *clientv3.Client
}

func start(t *testing.T) *store {
	t.Helper()
	t.Parallel()
	s := etcdtest.Start(t)
	return &store{s, t, s.Client(t)}
}

func (s *store) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	s.t.Cleanup(cancel)
	return ctx
}

// writer returns one whose author is the test.
func (s *store) writer() etcd.Writer {
	return etcd.Writer{Client: s.client, Prefix: prefix, Author: etcd.Author{User: "alice", Host: "laptop", Command: s.t.Name()}}
}

func (s *store) put(key, value string) int64 {
	s.t.Helper()
	answer, err := s.client.Put(s.ctx(), prefix+key, value)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.Header.Revision
}

func (s *store) remove(key string) {
	s.t.Helper()
	if _, err := s.client.Delete(s.ctx(), prefix+key); err != nil {
		s.t.Fatal(err)
	}
}

// watch runs a watcher until the test ends or stop is called. Its watches do not time out on a slow machine unless the test
// says when.
func watch(t *testing.T, c etcd.Config) (w *etcd.Watcher, stop func()) {
	t.Helper()
	if c.Prefix == "" {
		c.Prefix = prefix
	}
	if c.WatchTimeout == 0 {
		c.WatchTimeout = testkit.Timeout
	}
	w = etcd.NewWatcher(c)
	stop = run(t, w.Run)
	return w, stop
}

// run runs f in the background; stop ends it and waits.
func run(t *testing.T, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(testkit.Timeout):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// ready waits for the first table.
func ready(t *testing.T, w *etcd.Watcher) {
	t.Helper()
	select {
	case <-w.Ready():
	case <-time.After(testkit.Timeout):
		t.Fatal("never ready")
	}
}

// retryErrors returns retry.errors of a model, or -1 if there is no such model: a number that tests change.
func retryErrors(w *etcd.Watcher, name string) int {
	m, ok := w.Table().Model(name)
	if !ok {
		return -1
	}
	return m.Retry.Errors
}

// becomes waits until retry.errors of a model has a value.
func becomes(t *testing.T, w *etcd.Watcher, model string, want int) {
	t.Helper()
	for end := time.After(testkit.Timeout); ; {
		changed := w.Changed()
		if retryErrors(w, model) == want {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("%s has %d, never %d", model, retryErrors(w, model), want)
		}
	}
}

// logbook keeps the lines of a logger.
type logbook struct{ testkit.SyncBuffer }

func (l *logbook) count(what string) int { return strings.Count(l.String(), what) }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// healSlowly lets new connections pass. In a soak, those that lost bytes do not end: it takes the client up to 13 s to notice
// that they are dead.
func healSlowly(p *faultproxy.Proxy) {
	if testkit.Soak() {
		p.HealQuietly()
	} else {
		p.Heal()
	}
}

func dial(t testing.TB, addresses ...string) *clientv3.Client {
	t.Helper()
	var urls []string
	for _, address := range addresses {
		urls = append(urls, "http://"+address)
	}
	client, err := etcd.Dial(urls)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}
