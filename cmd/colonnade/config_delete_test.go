package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/internal/etcdtest"
	"colonnade/node"
)

// The note before a deletion says what nodes will hold back, and why.
func TestHeldBackNote(t *testing.T) {
	all := []etcd.Stored{
		{Key: "models/a", Value: []byte("pool: p\n")}, {Key: "models/b", Value: []byte("pool: q\n")}, {Key: "models/c", Value: []byte("pool: q\n")},
		{Key: "accounts/acme", Value: []byte("{}")}, {Key: "pools/q", Value: []byte("{}")},
		{Key: "endpoints/ams/1", Value: []byte("{url: 'http://h1', pool: p}")}, {Key: "endpoints/ams/2", Value: []byte("{url: 'http://h2', pool: q}")},
		{Key: "endpoints/ams/3", Value: []byte("{url: 'http://h3', pool: q}")}, {Key: "endpoints/fra/1", Value: []byte("{url: 'http://h1', pool: p}")},
		{Key: "owners/ams/ams-1/x", Value: []byte("?")},
	}
	f := func(want string, deleted ...string) {
		t.Helper()
		got := heldBackNote(all, deleted)
		if got == "" && want == "" {
			return
		}
		first, rest, _ := strings.Cut(got, ". Nodes assume a mistake and keep them in force")
		if first != "These are "+want || !strings.Contains(rest, "colonnade config confirm-deletions") || !strings.Contains(rest, "-confirm deletes and confirms in one step") {
			t.Errorf("%v: got %q, want %q", deleted, got, want)
		}
	}
	f("")
	f("", "models/a", "endpoints/ams/2", "owners/ams/ams-1/x")
	f("more than half of all models", "models/a", "models/b", "models/c")
	f("the last of all accounts: accounts/acme; and the last pool, while a model names it: pools/q", "pools/q", "accounts/acme")
	f("the last endpoint of a pool that a model names: endpoints/ams/1", "endpoints/ams/1")
	f("more than half of all endpoints of ams; and the last endpoint of a pool that a model names: endpoints/fra/1",
		"endpoints/ams/1", "endpoints/ams/2", "endpoints/ams/3", "endpoints/fra/1")
	f("", "endpoints/ams/1", "endpoints/fra/1", "models/a") // no model names their pool then
}

func TestDeleteMany(t *testing.T) {
	s := startEtcd(t)
	var keys []string
	file := ""
	for i := range 12 {
		keys = append(keys, fmt.Sprintf("models/m%d", i))
		file += "---\nkey: " + keys[i] + "\npool: p\n"
	}
	deletions := func() string {
		docs, _, err := etcd.List(t.Context(), s.Client(t), node.Prefix, string(fleet.KindDeletions))
		if err != nil {
			t.Fatal(err)
		}
		if len(docs) == 0 {
			return ""
		}
		return string(docs[0].Value)
	}
	run(t, file, "config", "apply", "-").want(t)
	if out := run(t, "", "config", "delete", "-ignore-missing", "models/m0", "models/none").want(t, "deleted models/m0\nmodels/none does not exist\n"); strings.Contains(out, "confirm") {
		t.Errorf("one document is too many:\n%s", out)
	}
	all := append([]string{"config", "delete"}, keys...)
	run(t, "", all...).fail(t, "nothing was deleted: not there: models/m0; correct the keys, or delete the others with -ignore-missing")
	if stored(t, s, "models/m11") == "" {
		t.Error("models were deleted although one key does not exist")
	}
	run(t, "", append(all, "-ignore-missing")...).want(t, "deleted models/m11", "models/m0 does not exist", "more than half of all models", "colonnade config confirm-deletions")
	if got := deletions(); got != "" {
		t.Errorf("the deletion is confirmed: %q", got)
	}
	run(t, file, "config", "apply", "-").want(t)
	run(t, "", append([]string{"config", "delete", "-confirm"}, keys...)...).want(t, "deleted models/m0", "confirmed all deletions up to revision 6")
	if got := deletions(); got != "confirmed: 6\n" {
		t.Errorf("got %q", got)
	}
}

// A confirmation must not cover deletions by other commands.
func TestDeleteConfirmsNothingElse(t *testing.T) {
	s := startEtcd(t)
	holds := node.ConfigState{Node: "ams-1", PendingDeletions: []string{"models/a", "models/b", "pools/x"}}
	put(t, s, map[string]string{"pools/x": "{}", "servers/ams/ams-1": registered(configured(holds).serve(t)), "servers/ams/mute": `{"address":"127.0.0.1:1","boot":"x"}`})
	run(t, "", "config", "delete", "-confirm", "pools/x").fail(t, "nothing was deleted", "2 deletions held back by ams-1: models/a, models/b",
		"colonnade config confirm-deletions", "mute cannot be asked")
	if stored(t, s, "pools/x") == "" || stored(t, s, "deletions") != "" {
		t.Error("it was deleted, or confirmed")
	}
	run(t, "", "config", "delete", "-confirm", "pools/x", "models/a", "models/b").want(t, "deleted pools/x", "models/a does not exist", "confirmed all deletions up to revision")
}

// putLeased puts the document of an endpoint, as a registrar does.
func putLeased(t *testing.T, s *etcdtest.Server, key string) {
	t.Helper()
	client := s.Client(t)
	lease, err := client.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "/colonnade/v1/"+key, "url: http://h:2\npool: p\n", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
}

func TestDeleteLeased(t *testing.T) {
	s := startEtcd(t)
	putLeased(t, s, "endpoints/ams/leased")
	put(t, s, map[string]string{"endpoints/ams/static": "url: http://h:1\npool: p\n"})
	out := run(t, "", "config", "delete", "endpoints/ams/leased", "endpoints/ams/static").want(t, "deleted endpoints/ams/leased")
	for _, want := range []string{"endpoints/ams/leased was registered under a lease: nodes use it while its engine is healthy", "put it with concurrency: 0 first"} {
		if !strings.Contains(strings.ReplaceAll(out, "\n", " "), want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

func TestDeleteOfARegistration(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"servers/ams/ams-1": registered("127.0.0.1:1")})
	run(t, "", "config", "delete", "servers/ams/ams-1").want(t, "deleted servers/ams/ams-1", "the registration of a node")
}

// Documents with invalid keys can be printed and deleted.
func TestDocumentsWithInvalidKeys(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"model/x": "{}", "model/y": "{}", "models": "{}", "pools/x": "{}"})
	run(t, "", "config", "get", "model/x").want(t, "# Not accepted: model/x: unknown kind of document")
	run(t, "", "config", "get", "model/").want(t, "# key: model/x", "# key: model/y")
	run(t, "", "config", "get", "models").want(t, "# Not accepted: models: ")
	run(t, "", "config", "delete", "model/x", "model/z", "pools/x").fail(t, "model/z: unknown kind of document")
	if stored(t, s, "model/x") == "" || stored(t, s, "pools/x") == "" {
		t.Error("documents were deleted although one key is invalid")
	}
	run(t, "", "config", "delete", "model/x", "models", "pools/none").fail(t, "nothing was deleted: not there: pools/none")
	run(t, "", "config", "delete", "pools/none").fail(t, "nothing was deleted: not there: pools/none; colonnade config get lists the documents")
	run(t, "", "config", "delete", "-ignore-missing", "model/x", "models", "pools/none").want(t, "deleted model/x\n", "deleted models\n", "pools/none does not exist")
	run(t, "", "config", "delete", "model/x").fail(t, "model/x: unknown kind of document")
	run(t, "", "config", "delete", "").fail(t, "unknown kind of document")
	if stored(t, s, "model/y") == "" || stored(t, s, "model/x")+stored(t, s, "models") != "" {
		t.Error("other documents were deleted than those that were named")
	}
}

// A node that is no longer reachable after the confirmation may still hold deletions back.
func TestConfirmWhileANodeGoes(t *testing.T) {
	s := startEtcd(t)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 2 { // the first poll has two requests
			panic(http.ErrAbortHandler)
		}
		_ = json.NewEncoder(w).Encode(node.ConfigState{Node: "ams-1", PendingDeletions: []string{"models/a"}})
	}))
	t.Cleanup(server.Close)
	put(t, s, map[string]string{"servers/ams/ams-1": registered(strings.TrimPrefix(server.URL, "http://"))})
	out := run(t, "", "config", "confirm-deletions").want(t, "1 deletion held back by ams-1: models/a", "ams-1 cannot be asked", "no reachable node holds deletions back any more; not asked: 1 node")
	if strings.Contains(out, "no node holds deletions back any more") {
		t.Errorf("the command claims more than it can know:\n%s", out)
	}
}

func TestConfirm(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "config", "confirm-deletions").want(t, "no reachable node holds deletions back", "confirmed all deletions up to revision 1\n")
	client := s.Client(t)
	// This node does what nodes do: it holds back until it is confirmed.
	obeys := configured(node.ConfigState{})
	obeys.config = func() node.ConfigState {
		c := node.ConfigState{Node: "obeys", PendingDeletions: []string{"models/a", "models/b"}}
		if docs, _, err := etcd.List(context.Background(), client, node.Prefix, "deletions"); err == nil && len(docs) == 1 && docs[0].Revision > 3 {
			c.PendingDeletions = nil
		}
		return c
	}
	obeys.register(t, s, "servers/ams/obeys")
	run(t, "", "config", "confirm-deletions").want(t, "2 deletions held back by obeys: models/a, models/b\n",
		"confirmed all deletions up to revision 3\n", "no node holds deletions back any more\n")

	put(t, s, map[string]string{"entries/stubborn": fmt.Sprintf(`{"address":"127.0.0.1:1","admin":%q}`,
		configured(node.ConfigState{Node: "stubborn", PendingDeletions: []string{"pools/x"}}).serve(t)), "servers/ams/mute": `{"address":"127.0.0.1:1","boot":"x"}`})
	var out strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := confirmHeld(ctx, &change.Documents{Client: client}, &out)
	if err == nil || !strings.Contains(err.Error(), "still 1 deletion held back by stubborn: pools/x") {
		t.Errorf("got %v", err)
	}
	if want := "mute cannot be asked: it has registered no admin address"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
}
