package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/gossip"
	"colonnade/fleet"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// A colo server registers the address at which it gossips, and finds registered siblings, which find it, with the keys of the fleet.
func TestColoServerGossips(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t)
	c := config(t, store, "ams-1")
	r, _ := start(t, func(ctx context.Context, started func(node.Running)) error {
		return node.RunColo(ctx, node.ColoConfig{Config: c, Colo: "ams", Gossip: "127.0.0.1:0"}, started)
	})
	var self fleet.Server
	if err := json.Unmarshal(value(t, store.Client(t), "servers/ams/ams-1"), &self); err != nil || self.Gossip == "" {
		t.Fatalf("registered: %+v, %v", self, err)
	}
	sibling, err := gossip.New(gossip.Config{
		Node: "ams-2", Boot: "boot", Colo: "ams", Listen: "127.0.0.1:0", Keys: c.Keys.Derive("gossip ams"),
		Siblings: func() []gossip.Sibling {
			return []gossip.Sibling{{Node: "ams-1", Boot: "of another process", Address: "127.0.0.1:1"}}
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sibling.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	leased(t, store.Client(t), "servers/ams/ams-2", fmt.Sprintf(`{"address":"127.0.0.1:1","boot":"boot","gossip":%q}`, sibling.Address()))
	testkit.WaitFor(t, "the server to join its sibling", func() bool {
		alive, _ := sibling.Alive("ams-1", r.Boot)
		return alive
	})
}

// Without -gossip a colo server registers no address for it; with a port that is taken it ends, and the error names the flag.
func TestGossipFlag(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t)
	c := config(t, store, "ams-1")
	_, stop := startColo(t, c)
	if text := value(t, store.Client(t), "servers/ams/ams-1"); strings.Contains(string(text), "gossip") {
		t.Errorf("registered: %s", text)
	}
	stop()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = node.RunColo(t.Context(), node.ColoConfig{Config: c, Colo: "ams", Gossip: taken.Addr().String()}, func(node.Running) { t.Error("it serves") })
	if err == nil || !strings.Contains(err.Error(), "flag -gossip") || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("a port that is taken: %v", err)
	}
}

// value returns the document of a key in etcd.
func value(t *testing.T, client *clientv3.Client, key string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	answer, err := client.Get(ctx, node.Prefix+key)
	if err != nil || len(answer.Kvs) == 0 {
		t.Fatalf("%s is not in etcd: %v", key, err)
	}
	return answer.Kvs[0].Value
}
