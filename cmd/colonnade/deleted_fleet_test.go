package main

import (
	"log/slog"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"colonnade/internal/fleettest"
	"colonnade/internal/testkit"
	"colonnade/node"
	"colonnade/onebox"
)

// All documents of a small fleet are deleted by a slip. Requests go on, and the log and config status say what vanished and by whom. The
// documents are put again, or the deletion is confirmed.
func TestDeletedSmallFleet(t *testing.T) {
	acme, acmeDocuments := fleettest.NewAccountKey(t, "acme", "weight: 2")
	_, betaDocuments := fleettest.NewAccountKey(t, "beta", "weight: 3")
	var log testkit.SyncBuffer
	f := fleettest.StartClosed(t, onebox.Config{
		Colos: []string{"ams", "fra"}, Engine: fleettest.QuickEngine(8),
		Logger: func(name string) *slog.Logger { return slog.New(slog.NewTextHandler(&log, nil)).With("node", name) },
	}, acmeDocuments+strings.TrimSuffix(betaDocuments, "---\n"))
	t.Setenv("COLONNADE_ETCD", f.Etcd)
	f.Key = acme
	backup := run(t, "", "config", "get", "models/", "accounts/", "keys/", "pools/", "colos/", "endpoints/", "defaults").want(t, "key: models/demo-chat", "key: accounts/beta")
	served := func(want int) bool {
		return f.Chat(fleettest.ChatBody(1, false)).Status == want
	}
	steady := f.Drive(2, fleettest.AlternatingBodies("demo-chat"))

	var ops []clientv3.Op
	for _, kind := range []string{"models/", "accounts/", "keys/", "pools/", "colos/", "endpoints/", "defaults"} {
		ops = append(ops, clientv3.OpDelete(node.Prefix+kind, clientv3.WithPrefix()))
	}
	f.Operator().Txn(ops...)
	held := func(texts ...string) bool {
		r := run(t, "", "config", "status")
		for _, text := range texts {
			if !strings.Contains(r.out, text) {
				return false
			}
		}
		return r.err != nil
	}
	testkit.WaitFor(t, "all nodes to hold the deletions back", func() bool {
		return held("deletions held back by entry-1, ams-1, fra-1: ", "an unknown program", "effect: none while nodes hold the deletions back") && strings.Count(log.String(), "etcd has no documents any more") == 3
	})
	for _, text := range []string{
		`msg="too many documents deleted; holding the deletions back until they are confirmed" node=entry-1 kind=models deleted=3 left=0 keys="models/demo-chat, `,
		`msg="last document of a kind deleted; holding the deletion back until it is confirmed" node=entry-1 kind=accounts deleted=2 left=0 keys="accounts/acme, accounts/beta"`,
		`msg="last endpoint of a pool in use deleted; holding the deletion back until it is confirmed" node=fra-1 kind=endpoints deleted=1 left=0 keys=endpoints/fra/sim-1`,
	} {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not have %s", text)
		}
	}
	testkit.WaitFor(t, "the deletions in the log", func() bool { return strings.Count(log.String(), `msg="documents deleted"`) >= 3 })
	if !served(200) {
		t.Error("a request is refused")
	}

	// Put again.
	run(t, backup, "config", "apply", "-").want(t)
	testkit.WaitFor(t, "nothing to be held back", func() bool { return run(t, "", "config", "status").err == nil })
	steady.WaitServed(20)
	steady.Check()

	// By the command line, which says so before; and confirmed.
	out := run(t, "", "config", "delete", "models/demo-chat", "models/demo-embed", "models/demo-realtime", "keys/"+strings.Split(acme, "_")[1]).
		want(t, "These are more than half of all models. Nodes assume a mistake", "deleted models/demo-chat")
	if strings.Index(out, "Nodes assume a mistake") > strings.Index(out, "deleted models/") {
		t.Errorf("the note comes after the deletion:\n%s", out)
	}
	testkit.WaitFor(t, "all nodes to hold the deletions back", func() bool {
		return held("3 deletions held back by entry-1, ams-1, fra-1: models/demo-chat, models/demo-embed, models/demo-realtime; deleted at revision ", ": colonnade config delete models/demo-chat")
	})
	run(t, "", "config", "confirm-deletions").want(t, "no node holds deletions back any more")
	if !served(401) {
		t.Error("the API key is valid although one of two was deleted")
	}
}
