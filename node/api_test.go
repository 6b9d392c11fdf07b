package node_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/internal/etcdtest"
	"colonnade/internal/testkit"
	"colonnade/node"
)

const apiToken = "0123456789abcdef"

// callAPI sends a request to the admin API of a node.
func callAPI(t *testing.T, r node.Running, method, path, body string) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.Admin+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+apiToken)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(all)
}

// tokens writes a file of tokens with a mode.
func tokens(t *testing.T, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("alice "+apiToken+"\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// The admin API of an entry changes documents that it does not watch itself, and forces no deletion that would confirm others.
func TestAdminAPI(t *testing.T) {
	t.Parallel()
	s := etcdtest.Start(t)
	client := s.Client(t)
	ops := []clientv3.Op{}
	for _, key := range []string{"accounts/a", "accounts/b", "accounts/c", "pools/p"} {
		ops = append(ops, clientv3.OpPut(etcd.DefaultPrefix+key, "{}"))
	}
	if _, err := client.Txn(t.Context()).Then(ops...).Commit(); err != nil {
		t.Fatal(err)
	}
	c := config(t, s, "edge-1")
	without, stop := startEntry(t, c)
	if status, answer := callAPI(t, without, "GET", "/pools", ""); status != 404 || !strings.Contains(answer, "-admin-tokens FILE") {
		t.Errorf("without tokens: %d %s", status, answer)
	}
	stop()

	c.AdminTokens = tokens(t, 0o600)
	r, _ := startEntry(t, c)
	if status, answer := callAPI(t, r, "PUT", "/pools/p", `{"queue": {"limit": 8}}`); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if _, err := client.Delete(t.Context(), etcd.DefaultPrefix+"accounts/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, "deletions that are held back", func() bool { return strings.Contains(page(t, r, "/debug/config"), `"accounts/c"`) })
	if status, answer := callAPI(t, r, "PUT", "/models/m", `{"pool": "p"}`); status != 201 {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := callAPI(t, r, "DELETE", "/models/m?force=true", ""); status != 409 || !strings.Contains(answer, "would also confirm the deletion of accounts/a, accounts/b, accounts/c") {
		t.Errorf("%d %s", status, answer)
	}
}

// A file of tokens that others can read keeps a node from starting.
func TestTokensOfOthers(t *testing.T) {
	t.Parallel()
	c := node.ServeConfig{Engines: []string{"http://127.0.0.1:1"}, Open: true}
	c.Listen, c.Admin, c.AdminTokens = "127.0.0.1:0", "127.0.0.1:0", tokens(t, 0o644)
	err := node.RunServe(context.Background(), c, func(node.Running) { t.Error("it serves") })
	if err == nil || !strings.Contains(err.Error(), "flag -admin-tokens: ") || !strings.Contains(err.Error(), "others can read it") {
		t.Errorf("got %v", err)
	}
}
