package node_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
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
	if problems := page(t, r, "/debug/config"); !strings.Contains(problems, `"node_drained"`) || !strings.Contains(problems, "by ops") || strings.Contains(problems, `"node_not_ready"`) {
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
