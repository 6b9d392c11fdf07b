package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"colonnade/node"
	"colonnade/onebox"
)

func TestFlagsOfUpAreChecked(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		run(t, "", append([]string{"up"}, args...)...).fail(t, want)
	}
	f(`invalid value "8080" for flag -listen: must be host:port`, "-listen", "8080")
	f(`invalid value "x" for flag -admin: must be host:port`, "-admin", "x")
	f(`invalid value "x" for flag -etcd-listen: must be host:port`, "-etcd-listen", "x")
	f(`invalid value "0" for flag -slots: must be at least 1`, "-slots", "0")
	f(`invalid value "-1ns" for flag -itl: must not be negative`, "-itl", "-1ns")
	f(`invalid value "0" for flag -engines: must be at least 1`, "-engines", "0")
	f("write for example http://localhost:11434", "-engine-url", "x")
	f("set -engine-url too", "-engine-model", "x")
}

func TestInvalidDocumentsAreNamed(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	one := write("one.yaml", "key: pools/x\nqueue: {limit: -3}\n---\nnokey: 1\n---\nkey: models/a\n---\nkey: pools/y\nodd: 1\n")
	two := write("two.yaml", "key: models/a\n")
	empty := write("empty.yaml", "# nothing\n---\n")
	_, failed := loadDocuments(strings.NewReader(""), []string{one, two, empty, "-", filepath.Join(dir, "nowhere")})
	for _, want := range []string{
		one + ": pools/x: queue.limit", one + ": cannot read document 2 of the file (from line 3)", one + ": pools/y: odd: unknown field",
		two + ": models/a: duplicate key (first in " + one + ")",
		empty + ": there are no documents in it", "standard input: there are no documents in it", "nowhere: no such file",
	} {
		if err := errors.Join(failed...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	docs, failed := loadDocuments(strings.NewReader("key: models/b\n"), []string{two, "-"})
	if len(failed) != 0 || len(docs) != 2 {
		t.Errorf("%v, %v", docs, failed)
	}
}

func TestEtcdErrorNamesEtcd(t *testing.T) {
	err := etcdError("http://h:1", fmt.Errorf("cannot put: %w", context.DeadlineExceeded))
	if !strings.Contains(err.Error(), "etcd at http://h:1 does not answer; set its URLs with -etcd or COLONNADE_ETCD") {
		t.Error(err)
	}
	if err := etcdError("http://h:1", errors.New("x")); err.Error() != "x" {
		t.Error(err)
	}
}

// The quickstart promises of its load only what can happen in the fleet.
func TestQuickstart(t *testing.T) {
	f := func(c onebox.Config, colos []string, want ...string) {
		t.Helper()
		fleet := &onebox.Fleet{Dir: "/d", Entry: node.Running{Address: "[::]:8090", Admin: "0.0.0.0:9080"}}
		for _, colo := range colos {
			fleet.Engines = append(fleet.Engines, onebox.EngineNode{Colo: colo})
		}
		c.Engine.Slots = 4
		var out strings.Builder
		printFleet(&out, fleet, c)
		printQuickstart(&out, fleet, c, "cn_x_secret")
		for _, w := range append(want, "http://127.0.0.1:8090/v1", "http://127.0.0.1:9080/metrics") {
			if !strings.Contains(out.String(), w) {
				t.Errorf("it lacks %q:\n%s", w, out.String())
			}
		}
		if got := strings.Contains(out.String(), "spill"); got != (len(slices.Compact(colos)) > 1) {
			t.Errorf("%v: spill = %v:\n%s", colos, got, out.String())
		}
		if got := strings.Contains(out.String(), "temporary"); got != (c.Dir == "") {
			t.Errorf("dir %q: temporary = %v", c.Dir, got)
		}
		keys := strings.Count(out.String(), "-H 'authorization: Bearer cn_x_secret'") + strings.Count(out.String(), `api_key="cn_x_secret"`)
		if chats := strings.Count(out.String(), "/chat/completions"); keys != 1 && c.Open || keys != chats+1 && !c.Open {
			t.Errorf("open %v: the key stands %d times beside %d requests:\n%s", c.Open, keys, chats, out.String())
		}
	}
	f(onebox.Config{}, []string{"ams", "ams", "fra", "fra"}, "64 requests at once, for 16 slots: some run here")
	f(onebox.Config{Dir: "/d", Open: true}, []string{"ams"}, "28 requests at once, for 4 slots: some run, some queue, and the rest\nget a 429")
}
