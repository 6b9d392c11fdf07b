package cmd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// layout describes a fleet of processes.
type layout struct {
	colos     []string // names; default ams
	engines   int      // in each colo; default one
	slots     int      // of each engine; default 4
	engine    []string // further arguments of engines
	node      []string // further arguments of entry and colos, such as -drain
	documents string   // further YAML documents, each after a line of ---; they replace earlier ones
}

// member is one process of a fleet. It keeps its address, arguments and directory over restarts.
type member struct {
	*testkit.Process

	t       *testing.T
	binary  string
	args    []string
	address string // where it serves requests
	admin   string // empty for engines
	dir     string // data directory; empty for engines
}

// processes is a fleet as an operator runs it: etcd inside the test, everything else as a process of its own.
type processes struct {
	t       *testing.T
	etcd    string // URL
	keyFile string
	dir     string             // each node has its own below, named after it
	entry   *member            // edge-1
	colos   map[string]*member // by colo; each is the server COLO-1
	engines map[string]*member // by COLO/NUMBER, from 1
}

// startFleet starts the processes of a layout and waits until all serve. The model is tiny, the API key testKey.
func startFleet(t *testing.T, l layout) *processes {
	t.Helper()
	if l.colos == nil {
		l.colos = []string{"ams"}
	}
	l.engines, l.slots = max(l.engines, 1), max(l.slots, 4)
	f := &processes{
		t: t, etcd: "http://" + etcdtest.Start(t).Address, keyFile: testkit.KeyFile(t), dir: t.TempDir(), colos: map[string]*member{}, engines: map[string]*member{},
	}
	f.startEngines(l)
	for _, m := range f.engines {
		awaitEngine(t, m.address)
	}
	f.apply(f.describe(l) + l.documents)
	for _, name := range l.colos {
		f.colos[name] = f.node("colo", name+"-1", l, "-colo", name)
	}
	f.entry = f.node("entry", "edge-1", l, "-region", "weur")
	f.ready(f.entry)
	for _, m := range f.colos {
		f.ready(m)
	}
	f.waitServers(len(l.colos))
	return f
}

func (f *processes) startEngines(l layout) {
	for _, colo := range l.colos {
		for i := range l.engines {
			at := etcdtest.FreeAddress(f.t)
			m := &member{t: f.t, binary: "colonnade", address: at}
			m.args = append([]string{"engine", "-listen", at, "-slots", fmt.Sprint(l.slots)}, l.engine...)
			m.start()
			f.engines[fmt.Sprintf("%s/%d", colo, i+1)] = m
		}
	}
}

// describe returns the fleet's documents. On a slow machine, a connect may take longer than a second.
func (f *processes) describe(l layout) string {
	b := new(strings.Builder)
	fmt.Fprintf(b, "key: models/tiny\npool: tiny\ntimeouts: {connect: 30s}\n---\nkey: keys/test\naccount: acme\nsha256: %q\n", keyHash(testKey))
	for _, colo := range l.colos {
		fmt.Fprintf(b, "---\nkey: colos/%s\nregion: weur\n", colo)
		for i := range l.engines {
			at := f.engines[fmt.Sprintf("%s/%d", colo, i+1)].address
			fmt.Fprintf(b, "---\nkey: endpoints/%s/%d\nurl: http://%s\npool: tiny\nconcurrency: %d\n", colo, i+1, at, l.slots)
		}
	}
	return b.String()
}

// apply applies documents by the CLI.
func (f *processes) apply(documents string) {
	f.t.Helper()
	file := filepath.Join(f.t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if out, err := run(f.t, "colonnade", "config", "apply", "-etcd", f.etcd, file); err != nil {
		f.t.Fatalf("config apply: %v\n%s", err, out)
	}
}

// node starts an entry or a colo server with a data directory of its own.
func (f *processes) node(binary, name string, l layout, args ...string) *member {
	m := &member{t: f.t, binary: binary, address: etcdtest.FreeAddress(f.t), admin: etcdtest.FreeAddress(f.t), dir: filepath.Join(f.dir, name)}
	m.args = append([]string{
		"-node", name, "-listen", m.address, "-admin", m.admin, "-etcd", f.etcd, "-data-dir", m.dir, "-key-file", f.keyFile,
	}, append(args, l.node...)...)
	m.start()
	return m
}

// start starts the process, also after it has ended.
func (m *member) start() { m.Process = start(m.t, m.binary, m.args...) }

// restart kills the process and starts it again.
func (m *member) restart() {
	_ = m.Stop(syscall.SIGKILL)
	m.start()
}

// ready waits until the node is ready.
func (f *processes) ready(m *member) {
	f.t.Helper()
	testkit.WaitFor(f.t, filepath.Base(m.dir)+" to be ready", func() bool {
		status, _ := testkit.Get("http://" + m.admin + "/health/ready")
		return status == http.StatusOK
	})
}

// waitServers waits until the entry's table has so many active colo servers.
func (f *processes) waitServers(n int) {
	f.t.Helper()
	testkit.WaitFor(f.t, fmt.Sprintf("%d servers in the entry's table", n), func() bool {
		_, page := testkit.Get("http://" + f.entry.admin + "/debug/fleet")
		return activeServers(page) == n
	})
}

// activeServers counts the active colo servers on a page /debug/fleet.
func activeServers(page string) (n int) {
	var table struct {
		Documents map[string]struct {
			State string `json:"state"`
		} `json:"documents"`
	}
	if json.Unmarshal([]byte(page), &table) != nil {
		return 0
	}
	for key, d := range table.Documents {
		if strings.HasPrefix(key, "servers/") && d.State != "draining" {
			n++
		}
	}
	return n
}
