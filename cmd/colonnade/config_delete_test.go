package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

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
	all := slices.Concat(docs("models", 19, false), docs("pools", 9, false), docs("accounts", 30, false), docs("endpoints/ams", 30, true))
	f := func(want string, deleted ...[]etcd.Stored) {
		t.Helper()
		var keys []string
		for _, d := range slices.Concat(deleted...) {
			keys = append(keys, d.Key)
		}
		if got := joined(tooMany(all, keys), " "); got != want {
			t.Errorf("of %d deleted: %q, want %q", len(keys), got, want)
		}
	}
	f("")
	f("", docs("models", 9, false), docs("pools", 9, false))
	f("models", docs("models", 10, false), docs("pools", 9, false), docs("accounts", 15, false), docs("endpoints/ams", 30, true))
	f("accounts models", docs("models", 19, false), docs("accounts", 16, false))
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
	if out := run(t, "", "config", "delete", "models/m0", "models/none").want(t, "deleted models/m0\nmodels/none was not there\n"); strings.Contains(out, "confirm") {
		t.Errorf("one document is too many:\n%s", out)
	}
	run(t, "", append([]string{"config", "delete"}, keys...)...).want(t, "deleted models/m11", "models/m0 was not there", "more than half of all models", "colonnade config confirm")
	if got := deletions(); got != "" {
		t.Errorf("it is confirmed: %q", got)
	}
	run(t, file, "config", "apply", "-").want(t)
	run(t, "", append([]string{"config", "delete", "-confirm"}, keys...)...).want(t, "deleted models/m0", "confirmed what was deleted up to revision 6")
	if got := deletions(); got != "confirmed: 6\n" {
		t.Errorf("got %q", got)
	}
}

func TestConfirm(t *testing.T) {
	s := startEtcd(t)
	run(t, "", "config", "confirm").want(t, "no node that can be asked holds deletions back", "confirmed what was deleted up to revision 1\n")
	client := s.Client(t)
	// This node does what nodes do: it holds back until it is confirmed.
	obeys := page(t, func() node.ConfigState {
		c := node.ConfigState{Node: "obeys", Held: []string{"models/a", "models/b"}}
		if docs, _, err := etcd.List(context.Background(), client, node.Prefix, "deletions"); err == nil && len(docs) == 1 && docs[0].Revision > 3 {
			c.Held = nil
		}
		return c
	})
	put(t, s, map[string]string{"servers/ams/obeys": registration(obeys)})
	run(t, "", "config", "confirm").want(t, "2 deletions of models held back by obeys: models/a, models/b\n",
		"confirmed what was deleted up to revision 3\n", "no node holds deletions back any more\n")

	put(t, s, map[string]string{"entries/stubborn": fmt.Sprintf(`{"address":"127.0.0.1:1","admin":%q}`,
		page(t, says(node.ConfigState{Node: "stubborn", Held: []string{"pools/x"}}))), "servers/ams/mute": `{"address":"127.0.0.1:1","boot":"x"}`})
	var out screen
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	still, err := confirmHeld(ctx, client, &out)
	if err != nil || len(still) != 1 || !slices.Equal(still[0].nodes, []string{"stubborn"}) {
		t.Errorf("%v, %v", still, err)
	}
	for _, want := range []string{"mute cannot be asked: it has registered no admin address", "still: 1 deletion of pools held back by stubborn: pools/x"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}
