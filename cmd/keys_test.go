package cmd_test

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// An entry serves a key from its creation to its revocation; an open entry serves requests with and without one.
func TestKeysAndOpenEntry(t *testing.T) {
	t.Parallel()
	f := startFleet(t, layout{})
	openAt := etcdtest.FreeAddress(t)
	open := start(t, "entry", "-node", "open-1", "-listen", openAt, "-admin", "127.0.0.1:0", "-etcd", f.etcd, "-key-file", f.keyFile, "-open")
	testkit.WaitFor(t, "the open entry to be ready", func() bool {
		status, _ := testkit.Get("http://" + openAt + "/health/ready")
		return status == http.StatusOK
	})
	const warning = "this entry is open"
	if !strings.Contains(open.Output(), "level=WARN") || !strings.Contains(open.Output(), warning) || strings.Contains(f.entry.Output(), warning) {
		t.Errorf("log of the open entry:\n%s\nand of the other one:\n%s", open.Output(), f.entry.Output())
	}
	cli := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(testkit.Binary(t, "colonnade"), args...)
		cmd.Env = append(os.Environ(), "COLONNADE_ETCD="+f.etcd)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	key := cli("keys", "create", "-account", "new", "-id", "k1")
	works := func(address, key string) bool {
		status, _ := chat(address, key, false)
		return status == http.StatusOK
	}
	testkit.WaitFor(t, "the key to work", func() bool { return works(f.entry.address, key) })
	if works(f.entry.address, "") || !works(openAt, "") || !works(openAt, key) {
		t.Error("a request without a key: refused by the open entry, or served by the other one")
	}
	if out := cli("keys", "revoke", "k1"); out != "revoked key k1 of account new" {
		t.Errorf("revoke printed %q", out)
	}
	testkit.WaitFor(t, "the key to be refused", func() bool { return !works(f.entry.address, key) })
	if !works(openAt, key) {
		t.Error("the open entry refuses a revoked key, although it serves requests without one")
	}
}
