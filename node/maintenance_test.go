package node_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// ready returns the status of a node's readiness.
func ready(t *testing.T, r node.Running) int {
	t.Helper()
	response, err := http.Get("http://" + r.Admin + "/health/ready")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// drainAndUndrain drains a node that no other node replaces, takes it back, and drains it again before its process ends.
func drainAndUndrain(t *testing.T, client *clientv3.Client, key string, r node.Running, stop func()) {
	t.Helper()
	isDraining := func() bool { return strings.Contains(string(value(t, client, key)), `"state":"draining"`) }
	m := r.Maintenance
	testkit.WaitFor(t, "the registration", func() bool { _, ok := registered(t, client, key); return ok })
	if err := m.Undrain("ops"); err != nil || isDraining() {
		t.Errorf("to take back a node that does not drain: %v", err)
	}
	var last *node.LastNodeError
	if err := m.Drain("ops", false); !errors.As(err, &last) || isDraining() {
		t.Errorf("a drain that leaves no other node: %v", err)
	}
	before := ready(t, r)
	for range 2 {
		if err := m.Drain("ops", true); err != nil {
			t.Fatal(err)
		}
	}
	if got := ready(t, r); !isDraining() || got != http.StatusServiceUnavailable {
		t.Errorf("while it drains: ready %d, registered as %s", got, value(t, client, key))
	}
	if problems := strings.Join(strings.Fields(page(t, r, "/debug/config")), ""); !strings.Contains(problems, `"kind":"node_drained","severity":"error"`) || !strings.Contains(problems, "byops") || strings.Contains(problems, `"node_not_ready"`) {
		t.Errorf("while it drains, its problems are %s", problems)
	}
	if err := m.Undrain("ops"); err != nil {
		t.Fatal(err)
	}
	if got := ready(t, r); got != before || isDraining() {
		t.Errorf("after the drain: ready %d, and %d before it; registered as %s", got, before, value(t, client, key))
	}
	if err := m.Drain("ops", true); err != nil {
		t.Fatal(err)
	}
	stop() // fails the test unless the process ends as usual
	for _, err := range []error{m.Undrain("ops"), m.Drain("ops", true)} {
		if !errors.Is(err, node.ErrEnding) {
			t.Errorf("a change after the end: %v", err)
		}
	}
	if _, ok := registered(t, client, key); ok {
		t.Error("the node is still registered")
	}
}

// A colo server that is the only one of its colo drains by force, and is back at once.
func TestDrainOfAColoServer(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	leased(t, client, "colos/ams", "{}")
	r, stop := startColo(t, config(t, s, "ams-1"))
	drainAndUndrain(t, client, "servers/ams/ams-1", r, stop)
}

// So does an entry.
func TestDrainOfAnEntry(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	leased(t, client, "colos/ams", "{}")
	_, _ = startColo(t, config(t, s, "ams-1"))
	r, stop := startEntry(t, config(t, s, "edge-1"))
	testkit.WaitFor(t, "the entry to be ready", func() bool { return ready(t, r) == http.StatusOK })
	drainAndUndrain(t, client, "entries/edge-1", r, stop)
}

// drainBoth drains two nodes at once, several times, and then one after the other.
func drainBoth(t *testing.T, client *clientv3.Client, keys [2]string, nodes [2]node.Running) {
	t.Helper()
	isActive := func(key string) bool { return strings.Contains(string(value(t, client, key)), `"state":"active"`) }
	await := func() {
		for _, key := range keys {
			testkit.WaitFor(t, "the registration of "+key, func() bool { _, ok := registered(t, client, key); return ok && isActive(key) })
		}
	}
	await()
	for range 3 {
		var errs [2]error
		var drains sync.WaitGroup
		for i, r := range nodes {
			drains.Go(func() { errs[i] = r.Maintenance.Drain("ops", false) })
		}
		drains.Wait()
		if errs[0] == nil && errs[1] == nil {
			t.Errorf("%s and %s drain both", keys[0], keys[1])
		}
		for i, r := range nodes {
			if errs[i] == nil && isActive(keys[i]) {
				t.Errorf("%s drains and is registered as active", keys[i])
			}
			if err := r.Maintenance.Undrain("ops"); err != nil {
				t.Error(err)
			}
		}
		await()
	}
	var last *node.LastNodeError
	if err := nodes[0].Maintenance.Drain("ops", false); err != nil {
		t.Errorf("a drain that leaves another node: %v", err)
	}
	if err := nodes[1].Maintenance.Drain("ops", false); !errors.As(err, &last) || !isActive(keys[1]) {
		t.Errorf("a drain right after that of the other node: %v", err)
	}
}

// Two servers whose operators drain them at once do not leave their colo without an active one.
func TestDrainsOfTwoColoServersAtOnce(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	leased(t, client, "colos/ams", "{}")
	first, _ := startColo(t, config(t, s, "ams-1"))
	second, _ := startColo(t, config(t, s, "ams-2"))
	drainBoth(t, client, [2]string{"servers/ams/ams-1", "servers/ams/ams-2"}, [2]node.Running{first, second})
}

// So it is with two entries.
func TestDrainsOfTwoEntriesAtOnce(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	leased(t, client, "colos/ams", "{}")
	first, _ := startEntry(t, config(t, s, "edge-1"))
	second, _ := startEntry(t, config(t, s, "edge-2"))
	drainBoth(t, client, [2]string{"entries/edge-1", "entries/edge-2"}, [2]node.Running{first, second})
}

// A process that serves one place knows no other, so it drains without force: its load balancer may know some. Requests are served.
func TestDrainOfAServeProcess(t *testing.T) {
	t.Parallel()
	url, _, _ := engine(t)
	c := node.ServeConfig{Engines: []string{url}, Open: true, Config: node.Config{
		Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	r, stop := start(t, func(ctx context.Context, started func(node.Running)) error { return node.RunServe(ctx, c, started) })
	if err := r.Maintenance.Drain("", false); err != nil || ready(t, r) != http.StatusServiceUnavailable {
		t.Errorf("while it drains: ready %d, %v", ready(t, r), err)
	}
	response, err := http.Get("http://" + r.Address + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("a request while it drains: %d, last of its connection: %v", response.StatusCode, response.Close)
	}
	if err := r.Maintenance.Undrain(""); err != nil || ready(t, r) != http.StatusOK {
		t.Errorf("after the drain: ready %d, %v", ready(t, r), err)
	}
	stop()
}
