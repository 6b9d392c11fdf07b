package trust_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"colonnade/forwarding/hop"
	"colonnade/internal/proctest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

// fleetKeys returns what a node reports about its fleet keys.
func fleetKeys(n *proctest.Node) node.FleetKeyState {
	var page node.ConfigState
	if _, body := n.Get("/debug/config"); json.Unmarshal([]byte(body), &page) != nil || page.FleetKeys == nil {
		return node.FleetKeyState{}
	}
	return *page.FleetKeys
}

// The fleet key is rotated in the three steps of the command, under load and over two colos, without a restart, and no request fails. A node
// with the old key alone is named then, and serves again once it has the new one.
func TestFleetKeyIsRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	f := proctest.Start(t, proctest.Config{Colos: []string{"ams", "fra"}, Entries: 2})
	load := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 2, proctest.Streamed: 2}})
	before, err := os.ReadFile(f.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	newKey := filepath.Join(t.TempDir(), "new.key")
	rotate := func(agree bool, want ...string) {
		t.Helper()
		out, err := f.Run("keys", "rotate-fleet", "-new-key", newKey, "-write", f.KeyFile)
		if (err == nil) != agree {
			t.Errorf("all nodes accept each other's requests: %v, and the command ended with %v\n%s", agree, err, out)
		}
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%q is missing: %v\n%s", text, err, out)
			}
		}
	}
	// copyKeys copies the file to one node after the other, and waits for all.
	copyKeys := func(nodes ...*proctest.Node) {
		t.Helper()
		want, err := hop.ReadKeys(f.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			f.CopyKeys(n)
		}
		for _, n := range nodes {
			testkit.WaitFor(t, n.Name+" to have the keys of the file", func() bool { return slices.Equal(fleetKeys(n).Accepts, want.IDs()) })
		}
	}
	for step := 1; step <= 3; step++ {
		load.WaitServed(t, 5)
		rotate(true, fmt.Sprintf("step %d of 3", step), "nodes without it: entries/edge-1, entries/edge-2, servers/ams/ams-1, servers/fra/fra-1")
		copyKeys(f.Running()...)
	}
	rotate(true, "the rotation is complete")
	load.Stop().Check(t)

	stale := f.Entries[1]
	if err := os.WriteFile(stale.KeyFile, before, 0o600); err != nil {
		t.Fatal(err)
	}
	const fault = "entries/edge-2: signs with the fleet key "
	testkit.WaitFor(t, "the node with the old key to be named", func() bool {
		out, err := f.Run("config", "status")
		return err != nil && strings.Contains(out, fault)
	})
	rotate(false, "step 1 of 3", fault, "nodes without it: entries/edge-2\n")
	if err := os.Chmod(stale.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the file that others can read to be reported", func() bool {
		return strings.Contains(fleetKeys(stale).Problem, "others can read it")
	})
	if err := os.Remove(stale.KeyFile); err != nil {
		t.Fatal(err)
	}
	copyKeys(stale) // the file has the step after which all agree again
	again := f.Drive(proctest.LoadConfig{Clients: map[proctest.Kind]int{proctest.Plain: 2}})
	again.WaitServed(t, 5)
	again.Stop().Check(t)
}
