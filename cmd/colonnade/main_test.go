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

	"colonnade/internal/simengine"
	"colonnade/node"
	"colonnade/onebox"
)

func TestDoubleDashes(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := strings.Join(doubleDashes(strings.Fields(in)), " "); got != want {
			t.Errorf("doubleDashes(%q) = %q, want %q", in, got, want)
		}
	}
	f("engine -ttft -5s --itl -0", "engine --ttft -5s --itl -0")
	f("up -open=false -- -x", "up --open=false -- -x")
	f("config apply -", "config apply -")
}

func TestCheckUp(t *testing.T) {
	f := func(want string, change func(*onebox.Config)) {
		t.Helper()
		c := onebox.Config{Listen: ":8080", Admin: "127.0.0.1:0", Engines: 1, Engine: simengine.Config{Slots: 1}}
		change(&c)
		if err := checkUp(c); fmt.Sprint(err) != want && (want == "" || !strings.Contains(fmt.Sprint(err), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	f("<nil>", func(*onebox.Config) {})
	f(`-listen "8080": must be host:port`, func(c *onebox.Config) { c.Listen = "8080" })
	f(`-admin "": must be host:port`, func(c *onebox.Config) { c.Admin = "" })
	f(`-etcd-listen "x": must be host:port`, func(c *onebox.Config) { c.Etcd = "x" })
	f("-slots 0", func(c *onebox.Config) { c.Engine.Slots = 0 })
	f("-itl -1ns", func(c *onebox.Config) { c.Engine.ITL = -1 })
	f("-engines 0", func(c *onebox.Config) { c.Engines = 0 })
}

func TestReadDocuments(t *testing.T) {
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
	_, err := readDocuments(strings.NewReader(""), []string{one, two, empty, "-", filepath.Join(dir, "nowhere")})
	for _, want := range []string{
		one + ": pools/x: queue.limit", one + ": cannot read document 2 of the file (from line 3)", one + ": pools/y: odd: unknown field",
		two + ": models/a: the key is given twice (first in " + one + ")",
		"no documents in " + empty, "no documents in standard input", "nowhere: no such file",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	docs, err := readDocuments(strings.NewReader("key: models/b\n"), []string{two, "-"})
	if err != nil || len(docs) != 2 {
		t.Errorf("%v, %v", docs, err)
	}
}

func TestEtcdError(t *testing.T) {
	err := etcdError("http://h:1", fmt.Errorf("cannot put: %w", context.DeadlineExceeded))
	if !strings.Contains(err.Error(), "etcd at http://h:1 does not answer; say where it is with -etcd or COLONNADE_ETCD") {
		t.Error(err)
	}
	if err := etcdError("http://h:1", errors.New("x")); err.Error() != "etcd at http://h:1: x" {
		t.Error(err)
	}
}

// What is promised of the pasted crowd is what can happen in that fleet.
func TestPrintFleet(t *testing.T) {
	f := func(c onebox.Config, colos []string, want ...string) {
		t.Helper()
		fleet := &onebox.Fleet{Dir: "/d", Entry: node.Running{Address: "[::]:8090", Admin: "0.0.0.0:9080"}}
		for _, colo := range colos {
			fleet.Engines = append(fleet.Engines, onebox.EngineNode{Colo: colo})
		}
		c.Engine.Slots = 4
		var out strings.Builder
		printFleet(&out, fleet, c, "cn_x_secret")
		for _, w := range append(want, "http://127.0.0.1:8090/v1", "http://127.0.0.1:9080/metrics") {
			if !strings.Contains(out.String(), w) {
				t.Errorf("it does not say %q:\n%s", w, out.String())
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
