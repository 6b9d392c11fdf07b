package cmd

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// Keys as an operator makes and revokes them, at an entry that demands them and at one that says that it does not.
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
		t.Errorf("the open entry said:\n%s\nand the other one:\n%s", open.Output(), f.entry.Output())
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
		t.Error("without a key: refused by the open entry, or served by the other one")
	}
	if said := cli("keys", "revoke", "k1"); said != "revoked key k1 of account new" {
		t.Errorf("revoke said %q", said)
	}
	testkit.WaitFor(t, "the key to be refused", func() bool { return !works(f.entry.address, key) })
	if !works(openAt, key) {
		t.Error("an open entry refuses a revoked key, and serves requests without one")
	}
}
