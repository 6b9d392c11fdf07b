package deploy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
)

// A colo server whose key file is in the directory of credentials, as Docker mounts secrets, sends an engine the credential that
// its document names, and never the key.
func TestKeyFileIsNoCredential(t *testing.T) {
	key := testkit.KeyFile(t)
	dir := filepath.Dir(key)
	if err := os.WriteFile(filepath.Join(dir, "vllm"), []byte("engine-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // guards seen
	var seen []string
	engine := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Get("Authorization"))
	}))
	t.Cleanup(engine.Close)
	documents := "key: models/m\n"
	for _, name := range []string{"vllm", filepath.Base(key)} {
		documents += fmt.Sprintf("---\nkey: endpoints/ams/%s\nurl: %s/%s\npool: m\ncredential: file:%s\n", name, engine.URL, name, name)
	}
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(file, []byte(documents), 0o600); err != nil {
		t.Fatal(err)
	}
	store, admin := []string{"COLONNADE_ETCD=http://" + etcdtest.Start(t).Address, "COLONNADE_CREDENTIALS_DIR=" + dir}, etcdtest.FreeAddress(t)
	endWell(t, start(t, store, "colonnade", "config", "apply", file).Wait())
	start(t, store, "colo", "-colo", "ams", "-node", "ams-1", "-listen", "127.0.0.1:0", "-admin", admin, "-key-file", key)
	testkit.WaitFor(t, "the endpoint with the key as its credential to be down for that", func() bool {
		answer, err := http.Get("http://" + admin + "/debug/pools")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		page, _ := io.ReadAll(answer.Body)
		return strings.Contains(string(page), "it is a file of this node")
	})
	testkit.WaitFor(t, "the other endpoint to be asked", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	if others := slices.DeleteFunc(seen, func(s string) bool { return s == "Bearer engine-secret" }); len(others) > 0 {
		t.Errorf("the engine also got %q", others)
	}
}
