package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/node"
)

func TestTooMany(t *testing.T) {
	docs := func(kind string, n int, leased bool) (docs []etcd.Stored) {
		for i := range n {
			docs = append(docs, etcd.Stored{Key: fmt.Sprintf("%s/%d", kind, i), Leased: leased})
		}
		return docs
	}
	all := slices.Concat(docs("models", 19, false), docs("pools", 9, false), docs("accounts", 30, false), docs("endpoints/ams", 30, true),
		docs("endpoints/fra", 12, false), docs("endpoints/nyc", 30, false))
	f := func(want string, deleted ...[]etcd.Stored) {
		t.Helper()
		var keys []string
		for _, d := range slices.Concat(deleted...) {
			keys = append(keys, d.Key)
		}
		if got := strings.Join(tooMany(all, keys), " "); got != want {
			t.Errorf("of %d deleted: %q, want %q", len(keys), got, want)
		}
	}
	f("")
	f("", docs("models", 9, false), docs("pools", 9, false))
	f("models", docs("models", 10, false), docs("pools", 9, false), docs("accounts", 15, false), docs("endpoints/ams", 30, true))
	f("accounts models", docs("models", 19, false), docs("accounts", 16, false))
	f("endpoints of fra", docs("endpoints/fra", 12, false), docs("endpoints/nyc", 10, false)) // fra's server knows only these
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
	if out := run(t, "", "config", "delete", "models/m0", "models/none").want(t, "deleted models/m0\nmodels/none does not exist\n"); strings.Contains(out, "confirm") {
		t.Errorf("one document is too many:\n%s", out)
	}
	run(t, "", append([]string{"config", "delete"}, keys...)...).want(t, "deleted models/m11", "models/m0 does not exist", "more than half of all models", "colonnade config confirm-deletions")
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

func TestDeleteLeased(t *testing.T) {
	s := startEtcd(t)
	client := s.Client(t)
	lease, err := client.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "/colonnade/v1/endpoints/ams/leased", "url: http://h:2\npool: p\n", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
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
	run(t, "", "config", "delete", "model/x", "models", "pools/none").want(t, "deleted model/x\n", "deleted models\n", "pools/none does not exist")
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
	err := confirmHeld(ctx, &documents{client: client}, &out)
	if err == nil || !strings.Contains(err.Error(), "still 1 deletion held back by stubborn: pools/x") {
		t.Errorf("got %v", err)
	}
	if want := "mute cannot be asked: it has registered no admin address"; !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
}
