package proctest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	_ "colonnade/onebox" // imports what the binaries are made of, so that cached results become invalid with it
)

// Colo is the first colo of a fleet, and the only one unless the configuration names several.
const Colo = "ams"

// gossipPort is the port of gossip of each server, in its own namespace.
const gossipPort = "7946"

// Config describes a fleet. The zero value of every field is valid.
type Config struct {
	Colos   []string      // by name; default [Colo]. Plans have them in this order, and they are next to each other
	Away    time.Duration // round trip to a colo server, also from another one, by a proxy; 0 = nodes connect to servers directly
	Servers int           // of each colo at the start, ams-1, ams-2, …; default one
	Entries int           // edge-1, edge-2, …; default one
	Pools   int           // pool-1, pool-2, …, each with a model of that name; default one
	Engines int           // of each pool in each colo; default one
	Slots   int           // of each engine; default 4
	Cache   int           // blocks of 16 tokens of each engine's prefix cache; default: it has none
	Bare    bool          // no engines and no models at the start: workers register them, with health checks every 200 ms

	TTFT, ITL time.Duration // of engines; default 5 ms each
	Drain     time.Duration // of nodes; default 5 s
	Delay     time.Duration // of each direction between a node and etcd

	Environment []string // of nodes, beside that of the test

	Documents  string // further YAML documents, each after a line of ---; they replace earlier ones
	Gossip     bool   // servers gossip with each other; needs Namespaces
	Serve      bool   // one process, edge-1, is the fleet, with documents in the file Path and without etcd; not with Namespaces
	Namespaces bool   // each node has a network namespace of its own; the test is skipped where that cannot be had
}

// Fleet is a running fleet that belongs to one test. Its methods are called from the test's goroutine.
type Fleet struct {
	T       testing.TB
	Etcd    *etcdtest.Process // nil if one process is the fleet
	Path    string            // of the file with its documents; empty if they are in etcd
	Engines []*Engine
	Entries []*Node
	Servers []*Node // also those that have ended; Server finds one by its name
	Workers []*Worker
	KeyFile string // with the fleet's keys, of which each node gets a copy

	config  Config
	network *network // nil: all nodes share the loopback interface
	dir     string
	loads   int // that were started
}

// Start starts a fleet and waits until all nodes are ready.
func Start(t testing.TB, c Config) *Fleet {
	t.Helper()
	for _, n := range []*int{&c.Servers, &c.Entries, &c.Pools, &c.Engines} {
		*n = max(*n, 1)
	}
	if len(c.Colos) == 0 {
		c.Colos = []string{Colo}
	}
	if c.Bare {
		c.Engines = 0
	}
	c.Slots = cmp.Or(c.Slots, 4)
	c.TTFT, c.ITL = cmp.Or(c.TTFT, 5*time.Millisecond), cmp.Or(c.ITL, 5*time.Millisecond)
	c.Drain = cmp.Or(c.Drain, 5*time.Second)
	f := &Fleet{T: t, config: c, KeyFile: testkit.KeyFile(t), dir: t.TempDir()}
	if c.Namespaces {
		f.network = newNetwork(t)
	}
	if c.Serve {
		f.startEngines()
		f.startServe()
	} else {
		f.Etcd = etcdtest.StartProcess(t, testkit.EtcdProgram(t))
		f.startEngines()
		f.startNodes()
	}
	f.WaitReady()
	return f
}

// startNodes applies the documents, and starts the colo servers and the entries.
func (f *Fleet) startNodes() {
	f.T.Helper()
	f.Apply(f.documents() + f.config.Documents)
	for _, colo := range f.config.Colos {
		for i := range f.config.Servers {
			f.StartServer(fmt.Sprintf("%s-%d", colo, i+1))
		}
	}
	for i := range f.config.Entries {
		f.Entries = append(f.Entries, f.startNode("entry", fmt.Sprintf("edge-%d", i+1), "-open"))
	}
}

// documents returns the fleet's documents. On a slow machine, a connect may take longer than a second.
func (f *Fleet) documents() string {
	b := new(strings.Builder)
	b.WriteString("key: defaults\nmodel: {timeouts: {connect: 30s}}\npool: {queue: {limit: 2000, per_account: 2000, max_wait: 2m}}\n")
	if f.config.Bare {
		b.WriteString("endpoint: {health: {interval: 200ms}}\n")
	}
	var steps []string
	for _, colo := range f.config.Colos {
		fmt.Fprintf(b, "---\nkey: colos/%s\nregion: weur\n", colo)
		steps = append(steps, "{colos: ["+colo+"]}")
	}
	for _, pool := range f.Pools() {
		if f.config.Bare {
			break
		}
		fmt.Fprintf(b, "---\nkey: models/%s\npool: %s\nrouting: {steps: [%s]}\n", pool, pool, strings.Join(steps, ", "))
	}
	for _, e := range f.Engines {
		fmt.Fprintf(b, "---\nkey: endpoints/%s/%s\nurl: %s\npool: %s\nconcurrency: %d\n", e.Colo, e.ID, e.URL, e.Pool, e.Limit)
	}
	return b.String()
}

// Pools returns the names of the pools, which are also those of the models.
func (f *Fleet) Pools() (names []string) {
	for i := range f.config.Pools {
		names = append(names, fmt.Sprintf("pool-%d", i+1))
	}
	return names
}

// Apply applies documents by the CLI, to etcd or to the file.
func (f *Fleet) Apply(documents string) {
	f.T.Helper()
	file := filepath.Join(f.T.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		f.T.Fatal(err)
	}
	if out, err := f.Run("config", "apply", file); err != nil {
		f.T.Fatalf("config apply: %v\n%s", err, out)
	}
}

// Run runs a command of the CLI against the fleet's etcd or file, to its end.
func (f *Fleet) Run(args ...string) (output string, err error) {
	f.T.Helper()
	cmd := exec.Command(testkit.Binary(f.T, "colonnade"), args...)
	where := "COLONNADE_CONFIG=" + f.Path
	if f.Etcd != nil {
		where = "COLONNADE_ETCD=http://" + f.Etcd.Address
	}
	cmd.Env = append(os.Environ(), where)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// CopyKeys copies the fleet's keys to the key file of a node.
func (f *Fleet) CopyKeys(n *Node) {
	f.T.Helper()
	content, err := os.ReadFile(f.KeyFile)
	if err == nil {
		err = os.WriteFile(n.KeyFile, content, 0o600)
	}
	if err != nil {
		f.T.Fatal(err)
	}
}

// StartServer starts a colo server, whose name is that of its colo and a number, and does not wait for it.
func (f *Fleet) StartServer(name string) *Node {
	f.T.Helper()
	colo, _, _ := strings.Cut(name, "-")
	args := []string{"-colo", colo}
	if f.config.Gossip {
		args = append(args, "-gossip", ":"+gossipPort)
	}
	n := f.startNode("colo", name, args...)
	f.Servers = append(f.Servers, n)
	return n
}

// Server returns the server with this name.
func (f *Fleet) Server(name string) *Node {
	f.T.Helper()
	i := slices.IndexFunc(f.Servers, func(n *Node) bool { return n.Name == name })
	if i < 0 {
		f.T.Fatalf("no server has the name %s", name)
	}
	return f.Servers[i]
}

// Running returns the nodes whose processes run, entries first.
func (f *Fleet) Running() (nodes []*Node) {
	for _, n := range slices.Concat(f.Entries, f.Servers) {
		if !n.Ended() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// WaitReady waits until all running nodes are ready, and each entry knows exactly the running servers.
func (f *Fleet) WaitReady() {
	f.T.Helper()
	for _, n := range f.Running() {
		n.WaitReady()
	}
	if f.Etcd == nil {
		return
	}
	var want []string
	for _, n := range f.Servers {
		if !n.Ended() {
			want = append(want, n.Name)
		}
	}
	slices.Sort(want)
	for _, e := range f.Entries {
		testkit.WaitFor(f.T, fmt.Sprintf("%s to know the servers %v", e.Name, want), func() bool { return slices.Equal(e.ActiveServers(), want) })
	}
}
