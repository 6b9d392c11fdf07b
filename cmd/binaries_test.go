// Package cmd_test runs the commands as processes.
package cmd_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"colonnade/analytics"
	"colonnade/analytics/journal"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	_ "colonnade/onebox" // imports what the binaries are made of, so that cached results become invalid with it
)

// TestMain lets some tests run at once: each mostly waits for processes of its own.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// start starts one of the binaries.
func start(t *testing.T, name string, args ...string) *testkit.Process {
	t.Helper()
	return testkit.Start(t, exec.Command(testkit.Binary(t, name), args...))
}

// run runs one of the binaries to its end.
func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	path := testkit.Binary(t, name)
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), testkit.FreeGossip)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// awaitEngine waits until the engine answers: an engine that starts after its colo server is down for a moment.
func awaitEngine(t *testing.T, address string) {
	t.Helper()
	testkit.WaitFor(t, "the engine at "+address, func() bool {
		status, _ := testkit.Get("http://" + address + "/stats")
		return status == http.StatusOK
	})
}

func chat(address, key string, stream bool) (int, string) {
	body := fmt.Sprintf(`{"model":"tiny","stream":%v,"max_tokens":5,"messages":[{"role":"user","content":"hello"}]}`, stream)
	var headers []string
	if key != "" {
		headers = []string{"Authorization", "Bearer " + key}
	}
	status, _, text := testkit.Post("http://"+address+"/v1/chat/completions", body, headers...)
	return status, text
}

const testKey = "cn_test_0123456789abcdefghij"

// documents of a fleet with one colo, one engine and one account; the hash is that of testKey.
const documents = `
key: models/tiny
pool: tiny
---
key: colos/ams
region: weur
---
key: colos/spare
region: weur
---
key: endpoints/ams/one
url: http://%s/v1
pool: tiny
concurrency: 4
---
key: keys/test
account: acme
sha256: "%s"
`

func keyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// The binaries, as an operator starts them: documents, engine, colo, entry; requests; a restart; a second server; the end.
func TestBinariesServe(t *testing.T) {
	t.Parallel()
	store := etcdtest.Start(t)
	etcd := "http://" + store.Address
	dir := t.TempDir()
	keyFile := testkit.KeyFile(t)
	engineAt, coloAt, coloAdmin, entryAt, entryAdmin := etcdtest.FreeAddress(t), etcdtest.FreeAddress(t), etcdtest.FreeAddress(t), etcdtest.FreeAddress(t), etcdtest.FreeAddress(t)
	file := filepath.Join(dir, "fleet.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, documents, engineAt, keyHash(testKey)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(t, "colonnade", "config", "apply", "-etcd", etcd, file); err != nil || !strings.Contains(out, "applied models/tiny") {
		t.Fatalf("config apply: %v\n%s", err, out)
	}
	if out, err := run(t, "colonnade", "config", "delete", "-etcd", etcd, "-ignore-missing", "pools/none", "colos/spare"); err != nil ||
		out != "pools/none does not exist\ndeleted colos/spare\n" {
		t.Fatalf("config delete: %v\n%s", err, out)
	}
	start(t, "colonnade", "engine", "-listen", engineAt, "-itl", "1ms")
	awaitEngine(t, engineAt)
	coloArgs := []string{"-colo", "ams", "-node", "ams-1", "-listen", coloAt, "-admin", coloAdmin, "-etcd", etcd, "-data-dir", dir, "-key-file", keyFile, "-drain", "5s"}
	colo := start(t, "colo", coloArgs...)
	entry := start(t, "entry", "-node", "edge-1", "-region", "weur", "-position", "-33.9,151.2", "-listen", entryAt, "-admin", entryAdmin, "-etcd", etcd, "-data-dir", dir, "-key-file", keyFile, "-drain", "5s")
	testkit.WaitFor(t, "the entry to be ready", func() bool {
		status, _ := testkit.Get("http://" + entryAt + "/health/ready")
		return status == http.StatusOK
	})
	if out, err := run(t, "colonnade", "config", "get", "-all", "-etcd", etcd, "entries/edge-1"); err != nil || !strings.Contains(out, "lat: -33.9\n#   lon: 151.2") {
		t.Errorf("the entry has registered %v\n%s", err, out)
	}

	if status, body := chat(entryAt, "", false); status != 401 || !strings.Contains(body, "invalid_api_key") {
		t.Errorf("without a key: %d %s", status, body)
	}
	if status, body := chat(entryAt, testKey, false); status != 200 || !strings.Contains(body, `"completion_tokens":5`) {
		t.Errorf("plain: %d %s", status, body)
	}
	if status, body := chat(entryAt, testKey, true); status != 200 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("streamed: %d %s", status, body)
	}
	for _, url := range []string{"http://" + coloAdmin + "/debug/check", "http://" + entryAdmin + "/debug/check", "http://" + coloAdmin + "/debug/pools"} {
		if status, body := testkit.Get(url); status != 200 {
			t.Errorf("%s: %d %s", url, status, body)
		}
	}
	if _, body := testkit.Get("http://" + coloAdmin + "/metrics"); !strings.Contains(body, `colonnade_permits{pool="tiny"} 4`) {
		t.Errorf("the colo's metrics lack its permits:\n%s", body)
	}

	// Killed and restarted under its name, the server takes over its lease and serves again.
	_ = colo.Stop(syscall.SIGKILL)
	colo = start(t, "colo", coloArgs...)
	testkit.WaitFor(t, "the colo to serve after a kill", func() bool {
		status, _ := chat(entryAt, testKey, false)
		return status == 200
	})

	if err := entry.Stop(syscall.SIGTERM); err != nil {
		t.Errorf("entry ended with %v\n%s", err, entry.Output())
	}
	if err := colo.Stop(syscall.SIGTERM); err != nil {
		t.Errorf("colo ended with %v\n%s", err, colo.Output())
	}
	ends := map[analytics.Kind]int{}
	for e, err := range journal.ReadDir(dir) {
		if err != nil {
			t.Error(err)
		}
		if e.Phase == analytics.PhaseEnd && e.Outcome == analytics.OutcomeCompleted {
			ends[e.Kind]++
		}
	}
	if ends[analytics.KindRequest] != 3 || ends[analytics.KindInference] != 3 {
		t.Errorf("completed requests in the events: %v, want 3 of each kind", ends)
	}
}

// Errors of settings name the flag and what to do.
func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	open := filepath.Join(t.TempDir(), "open.key")
	if err := os.WriteFile(open, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("key: pools/x\nqueue: {limit: -3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f := func(want, name string, args ...string) {
		t.Helper()
		out, err := run(t, name, args...)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s %v: %v, want %q:\n%s", name, args, err, want, out)
		}
	}
	f("-key-file is missing", "entry")
	f("-colo is missing", "colo", "-key-file", open)
	f("chmod 0600", "entry", "-key-file", open)
	f("unexpected argument", "entry", "extra")
	f("queue.limit", "colonnade", "config", "apply", bad)
	f(`invalid value "0" for flag -slots: must be at least 1`, "colonnade", "engine", "-slots", "0")
	f(`invalid value "-5s" for flag -ttft: must not be negative`, "colonnade", "engine", "-ttft", "-5s")
	f(`invalid value "8080" for flag -listen: must be host:port`, "colonnade", "up", "-listen", "8080")
	f("no such file", "colonnade", "config", "apply", "nowhere.yaml")
	node := func(more ...string) []string {
		return append([]string{"-key-file", testkit.KeyFile(t), "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0"}, more...)
	}
	const position = "must be LAT,LON in degrees, such as 52.37,4.9"
	f(`flag -position "91,0": `+position, "entry", node("-position", "91,0")...)
	f(`flag -position "-33.9": `+position, "entry", node("-position", "-33.9")...)
	f(`region: "west europe": a name must begin with`, "entry", node("-region", "west europe")...)
	f("flag -tls-key is missing: the flags -tls-cert, -tls-key go together", "entry", node("-tls-cert", open)...)
	f("cannot read the certificate for clients (flags -tls-cert and -tls-key): open nowhere.pem", "entry", node("-tls-cert", "nowhere.pem", "-tls-key", open)...)
	f("flag -peer-tls-key and -peer-tls-ca is missing", "colo", node("-colo", "ams", "-peer-tls-cert", open)...)
	f("(flag -peer-tls-ca) ("+open+"): it contains no certificate", "colo", node("-colo", "ams", "-peer-tls-cert", open, "-peer-tls-key", open, "-peer-tls-ca", open)...)
	f("flag -tls-cert is missing", "colonnade", "up", "-tls-key", open, "-listen", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-etcd-listen", "127.0.0.1:0")
	f("address already in use", "colonnade", "up", "-listen", taken.Addr().String(), "-admin", "127.0.0.1:0", "-etcd-listen", "127.0.0.1:0")
}
