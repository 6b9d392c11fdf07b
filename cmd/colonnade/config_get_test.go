package main

import (
	"encoding/json"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
	"colonnade/node"
)

// meaning returns the table of the operators' documents in etcd.
func meaning(t *testing.T, s *etcdtest.Server) string {
	t.Helper()
	docs, _, err := etcd.List(t.Context(), s.Client(t), node.Prefix, "")
	if err != nil {
		t.Fatal(err)
	}
	all := document.NewSet()
	for _, d := range docs {
		if !change.IsRegistered(d) && d.Key != string(fleet.KindDeletions) && document.Check(d.Key, d.Value) == nil {
			if err := all.Put(d.Key, d.Value, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	text, err := json.MarshalIndent(all.Table(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The output of config get can be applied, and means the same, in whatever style the documents are written.
func TestGetAndApply(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{
		"defaults":             "# for all\nmodel:\n  timeouts: {total: 5m} # generous\norigins: ['https://a.example']\n",
		"models/a":             "aliases: [x]\npool: p\n",
		"models/json":          `{"pool":"p","aliases":["on","1e3"],"timeouts":{"idle":"1s"},"cost":{"unit":"u","input":1e3,"per":1000}}`,
		"models/empty":         "{}",
		"pools/p":              "---\nqueue: {limit: 7}\n...\n",
		"pools/flow":           "# why\n{queue: {limit: 8}}\n",
		"colos/ams":            "region: weur\r\nstate: active",
		"accounts/acme":        "weight: 2",
		"keys/k":               apiKeyDocument("acme", "ab", ""),
		"endpoints/ams/static": "url: http://h:1/v1\npool: p\n",
		"deletions":            "confirmed: 5\n",
		"pools/bad":            "queue: {limit: -3}\n",
		"pools/broken":         "queue: [\x1b[31m\n",
		"plans/x":              "{}",
		"servers/ams/s":        `{"address":"h:1","boot":"x"}`,
	})
	client := s.Client(t)
	lease, err := client.Grant(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "/colonnade/v1/endpoints/ams/leased", "url: http://h:2\npool: p\n", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	want := meaning(t, s)

	for _, args := range [][]string{{"config", "get"}, {"config", "get", "-all"}} {
		r := run(t, "", args...)
		file := r.want(t, "key: defaults\n# for all\n", "# generous", "key: models/json\npool: p\naliases:\n- \"on\"\n", "key: pools/p\nqueue: {limit: 7}\n", "# why\n",
			"# Not accepted: pools/bad: queue.limit: -3: must be at least 0\n# key: pools/bad\n# queue: {limit: -3}\n",
			"# Not accepted: plans/x: unknown kind", "only a comment: pools/bad: queue.limit", `# "queue: [\x1b[31m"`)
		if strings.Contains(file, "\x1b") {
			t.Errorf("what is in etcd reaches the terminal as it is:\n%q", file)
		}
		all := len(args) == 3
		for _, text := range []string{"# key: endpoints/ams/leased\n", "# key: servers/ams/s\n# address: h:1\n", "# key: deletions\n# confirmed: 5\n"} {
			if strings.Contains(file, text) != all {
				t.Errorf("%v: %q is there: %v", args, text, !all)
			}
		}
		run(t, file, "config", "validate", "-").want(t, "10 documents valid")
		other := startEtcd(t)
		run(t, file, "config", "apply", "-").want(t, "applied pools/flow")
		if got := meaning(t, other); got != want {
			t.Errorf("%v, applied, means\n%s\nwant\n%s", args, got, want)
		}
		if got := storedKey(t, other, "k"); got.SHA256 != storedKey(t, s, "k").SHA256 {
			t.Errorf("%v, applied, gives the API key another hash: %x", args, got.SHA256)
		}
		// Applied output is printed unchanged.
		once := run(t, "", "config", "get").want(t, "# generous", "# why")
		run(t, once, "config", "apply", "-").want(t)
		if twice := run(t, "", "config", "get").want(t); twice != once || strings.Contains(once, "Not accepted") {
			t.Errorf("first:\n%s\nthen:\n%s", once, twice)
		}
		t.Setenv("COLONNADE_ETCD", "http://"+s.Address)
	}
}

func TestGetSome(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "config", "get").want(t, "there are no documents")
	put(t, s, map[string]string{
		"models/a": "pool: p\n", "models/b": "pool: p\n", "endpoints/ams/x": "url: http://h:1\npool: p\n", "servers/ams/s": `{"address":"h:1","boot":"x"}`,
		"deletions": "confirmed: 5\n",
	})
	f := func(want string, args ...string) {
		t.Helper()
		if got := run(t, "", append([]string{"config", "get"}, args...)...).want(t); got != want {
			t.Errorf("%v\n got %q\nwant %q", args, got, want)
		}
	}
	a, b := "key: models/a\npool: p\n", "key: models/b\npool: p\n"
	f(a, "models/a")
	f(a+"---\n"+b, "models/")
	f(a+"---\n"+b, "models/b", "models/", "models/a")
	f("key: endpoints/ams/x\nurl: http://h:1\npool: p\n", "endpoints/ams/")
	f("# Registered by a node, for as long as it runs:\n# key: servers/ams/s\n# address: h:1\n# boot: x\n", "servers/ams/s")
	f("# Confirms what was deleted until then, and nothing later:\n# key: deletions\n# confirmed: 5\n", "deletions")

	run(t, "", "config", "get", "models/a", "models/c").fail(t, "there is no document models/c")
	run(t, "", "config", "get", "pools/").fail(t, "there is no document below pools/")
	run(t, "", "config", "get", "servers/").fail(t, "no operator has written a document below servers/; -all shows 1 registration")
	run(t, "", "config", "get", "models").fail(t, "models: not a document; the documents below it are models/")
	run(t, "", "config", "get", "model/").fail(t, "unknown kind of document")
	run(t, "", "config", "get", "model/x").fail(t, "unknown kind of document")
	run(t, "", "config", "get", "").fail(t, "unknown kind of document")
}
