package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"colonnade/fleet"
	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// canaryTest is a fleet with two entries under load.
type canaryTest struct {
	*fleettest.Fleet
	t      *testing.T
	second node.Running

	served, refused atomic.Int64 // requests of the second entry
}

func startCanaryTest(t *testing.T) *canaryTest {
	t.Helper()
	f := fleettest.Start(t, onebox.Config{Colos: []string{"ams"}, Engine: fleettest.QuickEngine(64)}, "")
	c := &canaryTest{Fleet: f, t: t, second: startSecondEntry(t, f)}
	testkit.WaitFor(t, "both entries to be registered", func() bool { return c.inEtcd("entries/entry-1") && c.inEtcd("entries/entry-2") })
	f.Drive(4, fleettest.AlternatingBodies("demo-chat"), http.StatusTooManyRequests)
	return c
}

// loadSecond sends requests to the second entry until the end of the test.
func (c *canaryTest) loadSecond() {
	ctx, cancel := context.WithCancel(context.Background())
	var load sync.WaitGroup
	for range 4 { // enough requests to compare with, also where a request takes half a second
		load.Go(func() {
			for ctx.Err() == nil {
				c.requestSecond(ctx)
			}
		})
	}
	c.t.Cleanup(func() { cancel(); load.Wait() })
}

// requestSecond sends a request to the second entry.
func (c *canaryTest) requestSecond(ctx context.Context) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.second.Address+"/v1/chat/completions", strings.NewReader(fleettest.ChatBody(1, false)))
	if err != nil {
		c.t.Error(err)
		return
	}
	q.Header.Set("Content-Type", "application/json")
	response, err := c.Client.Do(q)
	if err != nil {
		return // the test ends
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if response.StatusCode == http.StatusOK {
		c.served.Add(1)
	} else {
		c.refused.Add(1)
	}
	time.Sleep(5 * time.Millisecond)
}

func startSecondEntry(t *testing.T, f *fleettest.Fleet) node.Running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan node.Running, 1), make(chan error, 1)
	go func() {
		ended <- node.RunEntry(ctx, node.EntryConfig{Open: true, Config: node.Config{
			Node: "entry-2", Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Etcd: []string{f.Etcd}, Keys: f.Keys,
			Drain: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		}}, func(r node.Running) { started <- r })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the entry ended with: %v", err)
		}
	})
	select {
	case r := <-started:
		return r
	case <-time.After(testkit.Timeout):
		t.Fatal("the entry has not started in time")
	}
	return node.Running{}
}

// apply runs config apply with documents, and further arguments.
func (c *canaryTest) apply(documents string, args ...string) ran {
	c.t.Helper()
	return run(c.t, documents, append([]string{"config", "apply", "-etcd", c.Etcd, "-canary-for", "6s"}, append(args, "-")...)...)
}

// stagedAt returns the staged change that a node reports; nil if it has none.
func (c *canaryTest) stagedAt(admin string) *fleet.StagedChange {
	c.t.Helper()
	var state node.ConfigState
	if err := json.Unmarshal(c.Page(admin, "/debug/config"), &state); err != nil {
		c.t.Fatal(err)
	}
	return state.Staged
}

// inEtcd reports whether etcd has a key.
func (c *canaryTest) inEtcd(key string) bool { return c.Operator().Get(node.Prefix+key).Count > 0 }

// model reports whether the second entry knows a model.
func (c *canaryTest) model(name string) (page string, known bool) {
	page = string(c.Page(c.second.Admin, "/debug/fleet"))
	return page, strings.Contains(page, `"`+name+`"`)
}

// asCommand runs this program as the command line, in a process of its own.
func asCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(cmd.Environ(), runAsCommand+"=1")
	return cmd
}

const tightLimit = "key: limits\nrequests_per_minute: 1\n"

// A bad change is found by the refusals of the node that tries it, and goes back; the other node never has it. A good one goes to all.
func TestCanary(t *testing.T) {
	t.Parallel()
	c := startCanaryTest(t)
	c.loadSecond()
	c.apply(tightLimit, "-canary", "entry-1").fail(t, "the change was taken back from entries/entry-1, and no other node had it: refused: from ")
	if n := c.refused.Load(); n > 0 {
		t.Errorf("%d requests of the other entry were refused", n)
	}
	if c.inEtcd("limits") {
		t.Error("the bad change was applied")
	}
	testkit.WaitFor(t, "the staged change to be gone", func() bool { return c.stagedAt(c.Entry.Admin) == nil })
	testkit.WaitFor(t, "requests to be served again", func() bool { return c.Chat(fleettest.ChatBody(1, false)).Status == http.StatusOK })

	good := c.apply("key: pools/demo\nqueue: {limit: 200}\n---\nkey: models/demo-chat\npool: demo\naliases: [default, tried]\n", "-canary", "entries/entry-1")
	good.want(t, "changed models/demo-chat", "this node does not read, so this does not try: pools/demo", "applied to all nodes at revision", "to undo it: colonnade config rollback ")
	testkit.WaitFor(t, "the second entry to have it", func() bool { _, known := c.model("tried"); return known })
	if c.stagedAt(c.Entry.Admin) != nil || c.inEtcd("staged/entries/entry-1") {
		t.Error("the change is still staged")
	}
	run(t, "", "config", "history", "-etcd", c.Etcd).want(t, "-canary entries/entry-1")
}

// A change that no request has tried goes to all by force, and is rolled back when requests of another node are refused.
func TestCanaryRollsBack(t *testing.T) {
	t.Parallel()
	c := startCanaryTest(t)
	r := c.apply(tightLimit, "-canary", "entry-2", "-force")
	r.fail(t, "not judged, since there were only 0 requests", "applied to all nodes", "the change was rolled back at all nodes: ", ": refused: from ")
	if c.inEtcd("limits") {
		t.Error("the change is still there")
	}
	run(t, "", "config", "history", "-etcd", c.Etcd).want(t, "(rolled back by itself)")
	testkit.WaitFor(t, "requests to be served again", func() bool { return c.Chat(fleettest.ChatBody(1, false)).Status == http.StatusOK })
}

// A command that is interrupted, or killed, leaves the fleet as it was. Only one command at a time tries a change at a node.
func TestCanaryEnds(t *testing.T) {
	t.Parallel()
	c := startCanaryTest(t)
	file := writeTo(t, t.TempDir(), "limits.yaml", tightLimit)
	args := []string{"config", "apply", "-etcd", c.Etcd, "-canary", "entry-2", "-canary-for", "6s", file}
	gone := func() bool { return c.stagedAt(c.second.Admin) == nil && !c.inEtcd("staged/entries/entry-2") }

	var out, notes record
	end := background(t, &out, &notes, args...)
	testkit.WaitFor(t, "the staged change", func() bool { return c.stagedAt(c.second.Admin) != nil })
	c.apply(tightLimit, "-canary", "entry-2").fail(t, "nothing was changed: entries/entry-2: a change is staged there already, since ", ": colonnade config apply ")
	run(t, "", "config", "status", "-etcd", c.Etcd).want(t, "entries/entry-2: has had a staged change in force for ", ": limits")
	if err := end(); err == nil || !strings.Contains(err.Error(), "the change was taken back from entries/entry-2, and no other node had it: interrupted") {
		t.Errorf("interrupted: %v", err)
	}
	testkit.WaitFor(t, "the change to be gone", gone)

	p := testkit.Start(t, asCommand(args...))
	testkit.WaitFor(t, "the staged change", func() bool { return c.stagedAt(c.second.Admin) != nil })
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "the change to be gone", gone)
	if c.inEtcd("limits") {
		t.Error("the change was applied")
	}
}

// A node that is not there is an error with the names of those that are, and so are settings that make no sense.
func TestCanaryRefused(t *testing.T) {
	t.Parallel()
	c := startCanaryTest(t)
	c.apply(tightLimit, "-canary", "edge-9").fail(t, "-canary edge-9: no such node is registered; there are entries/entry-1, entries/entry-2, servers/ams/ams-1")
	c.apply(tightLimit, "-canary", "entry-1", "-config", t.TempDir()).fail(t, "-canary needs a fleet")
	c.apply(tightLimit, "-canary", "entry-1", "-dry-run").fail(t, "-canary does not go with -dry-run")
	c.apply("key: models/demo-chat\npool: nowhere\n", "-canary", "entry-1").fail(t, "takes out of service", "demo-chat", "-force")
	c.apply("key: pools/demo\nqueue: {limit: 200}\n", "-canary", "entry-1").fail(t, "the node reads none of the documents: pools/demo")
	c.apply("key: pools/demo\nqueue: {limit: 300}\n", "-canary", "ams-1").want(t, "applied to all nodes", "changed pools/demo")
	c.apply("key: pools/demo\nqueue: {limit: 300}\n", "-canary", "ams-1").want(t, "unchanged pools/demo")
	c.apply("key: pools/other\nqueue: {limit: 200}\n", "-canary", "ams-1").want(t, "note: servers/ams/ams-1 has none of the pools concerned: other")
	if c.inEtcd("staged/entries/entry-1") || c.inEtcd("staged/servers/ams/ams-1") {
		t.Error("a change is still staged")
	}
}
