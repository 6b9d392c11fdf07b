package cmd_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// startWithFiles starts one of the binaries with a limit of open files.
func startWithFiles(t *testing.T, files int, name string, args ...string) *testkit.Process {
	t.Helper()
	limited := append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files), testkit.Binary(t, name)}, args...)
	return testkit.Start(t, exec.Command("sh", limited...))
}

// Nodes with 64 open files serve health pages, admin pages and requests, while strangers hold as many connections as they can. They say
// how many connections they accept.
func TestNodesWithFewFiles(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t)
	etcd, dir, keyFile := "http://"+store.Address, t.TempDir(), testkit.KeyFile(t)
	engineAt, coloAt, coloAdmin, entryAt, entryAdmin := etcdtest.FreeAddress(t), etcdtest.FreeAddress(t), etcdtest.FreeAddress(t), etcdtest.FreeAddress(t), etcdtest.FreeAddress(t)
	file := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, documents, engineAt, keyHash(testKey)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "colonnade", "config", "apply", "-etcd", etcd, file); err != nil {
		t.Fatalf("config apply: %v\n%s", err, out)
	}
	start(t, "colonnade", "engine", "-listen", engineAt)
	awaitEngine(t, engineAt)
	common := []string{"-etcd", etcd, "-data-dir", dir, "-key-file", keyFile, "-drain", "5s"}
	colo := startWithFiles(t, 64, "colo", append(common, "-colo", "ams", "-node", "ams-1", "-listen", coloAt, "-admin", coloAdmin)...)
	entry := startWithFiles(t, 64, "entry", append(common, "-node", "edge-1", "-listen", entryAt, "-admin", entryAdmin)...)
	ready := func() bool {
		status, _ := testkit.Get("http://" + entryAt + "/health/ready")
		return status == http.StatusOK
	}
	testkit.WaitFor(t, "the entry to be ready", ready)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	var idle []net.Conn
	for range 120 {
		for _, address := range []string{entryAt, coloAt} {
			if c, err := from.Dial("tcp", address); err == nil {
				idle = append(idle, c)
				t.Cleanup(func() { c.Close() })
			}
		}
	}
	served := func() {
		t.Helper()
		if !ready() {
			t.Error("the entry is not ready")
		}
		if status, body := chat(entryAt, testKey, false); status != http.StatusOK {
			t.Errorf("a request: %d %s", status, body)
		}
		for _, admin := range []string{coloAdmin, entryAdmin} {
			if status, body := testkit.Get("http://" + admin + "/debug/check"); status != http.StatusOK {
				t.Errorf("%s: %d %s", admin, status, body)
			}
		}
	}
	began := time.Now()
	for range 5 {
		served()
	}
	for _, c := range idle {
		c.Close()
	}
	// One address has bodies on as many connections as it gets, and never ends them.
	from = net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 10)}}
	for range 60 {
		c, err := from.Dial("tcp", entryAt)
		if err != nil {
			continue
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 200000\r\n\r\n%9000d", testKey, 1)
	}
	for range 3 {
		served()
	}
	if took := time.Since(began); took > silence/2 {
		t.Errorf("it took %v", took)
	}
	for _, node := range []*testkit.Process{colo, entry} {
		if out := node.Output(); !strings.Contains(out, "max_connections=14 open_files=64") || strings.Contains(out, "too many open files") {
			t.Errorf("the log says\n%s", out)
		}
	}
}

// silence is how long a node lets a connection be silent before its first request: until then, one that waits for files waits.
const silence = 10 * time.Second

// A limit of connections above what the open files allow is kept, and warned of.
func TestMoreConnectionsThanFiles(t *testing.T) {
	t.Parallel()
	entry := startWithFiles(t, 64, "entry", "-node", "edge-1", "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-etcd", "http://127.0.0.1:1",
		"-key-file", testkit.KeyFile(t), "-max-connections", "200")
	testkit.WaitFor(t, "the warning", func() bool {
		out := entry.Output()
		return strings.Contains(out, "level=WARN") && strings.Contains(out, "raise the limit of files") && strings.Contains(out, "max_connections=200 open_files=64 enough_for=14")
	})
}
