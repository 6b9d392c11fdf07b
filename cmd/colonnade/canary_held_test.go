package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"colonnade/change"
	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
	"colonnade/internal/etcdtest"
	"colonnade/node"
	"colonnade/problems"
	"colonnade/reasons"
)

const canaryKey = "entries/edge-1"

// newTrial returns the trial of a change at an entry that is registered, in a fleet whose only node that answers has a state.
func newTrial(t *testing.T, s *etcdtest.Server, c node.ConfigState) *canaryTrial {
	t.Helper()
	put(t, s, map[string]string{"servers/ams/ams-1": registered(configured(c).serve(t)), canaryKey: "{address: '127.0.0.1:1', state: active}"})
	return trialAt(t, s)
}

// trialAt returns the trial of a change at the entry.
func trialAt(t *testing.T, s *etcdtest.Server) *canaryTrial {
	t.Helper()
	notes := &strings.Builder{}
	return &canaryTrial{
		changing: &changing{force: true}, cmd: &cli.Command{Writer: notes, ErrWriter: notes}, progress: newProgress(notes),
		docs: &change.Documents{Client: s.Client(t), Author: etcd.Author{User: "alice", Host: "laptop", Command: t.Name()}},
		node: &nodeLook{nodeState: nodeState{registration: registration{Document: canaryKey}}},
	}
}

// decide takes a change as that of the trial.
func (t *canaryTrial) decide(tb testing.TB, e etcd.Edit) {
	tb.Helper()
	var err error
	if t.read, err = t.docs.Writer().Snapshot(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	t.plan = change.Outcome{Before: t.read.Documents, Edit: e}
}

// stage stages the change of the trial.
func (t *canaryTrial) stage(tb testing.TB) *etcd.Stage {
	tb.Helper()
	stage, err := t.docs.Writer().Stage(tb.Context(), canaryKey, t.plan.Edit, stagedTTL)
	if err != nil {
		tb.Fatal(err)
	}
	return stage
}

// A rollback that deletes the last document of a kind does not confirm deletions of others that nodes hold back.
func TestCanaryRollbackConfirmsNothingElse(t *testing.T) {
	for _, held := range [][]string{nil, {"models/a"}} {
		s := startEtcd(t)
		trial := newTrial(t, s, node.ConfigState{Node: "ams-1", PendingDeletions: held})
		trial.decide(t, etcd.Edit{Put: []document.Raw{{Key: "accounts/acme", Value: []byte("{}")}}})
		done, err := trial.docs.Writer().Commit(t.Context(), trial.read, trial.plan.Edit)
		if err != nil {
			t.Fatal(err)
		}
		_, unconfirmed, err := trial.rollBack(t.Context(), done[0])
		if err != nil || stored(t, s, "accounts/acme") != "" {
			t.Errorf("held %v: not rolled back: %v", held, err)
		}
		if got, want := stored(t, s, "deletions") != "", held == nil; got != want || want != (unconfirmed == nil) {
			t.Errorf("held %v: confirmed %v (%v), want %v", held, got, unconfirmed, want)
		}
	}
}

// A change that confirms its deletions is not applied if others have deleted documents meanwhile, which it would confirm too.
func TestCanaryCommitConfirmsNothingElse(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{"accounts/acme": "{}"})
	trial := newTrial(t, s, node.ConfigState{Node: "ams-1", PendingDeletions: []string{"models/a"}})
	trial.decide(t, etcd.Edit{Delete: []string{"accounts/acme"}, Confirm: true})
	_, err := trial.commit(t.Context(), keepStage(t.Context(), trial.stage(t)))
	if err == nil || !strings.Contains(err.Error(), "not applied: ") || !strings.Contains(err.Error(), "1 deletion held back by ams-1: models/a") {
		t.Errorf("committed: %v", err)
	}
	if stored(t, s, "accounts/acme") == "" || stored(t, s, "deletions") != "" {
		t.Error("it was deleted, or confirmed")
	}
}

// Deletions that a node holds back stop a trial, also if its peers hold them back too; another problem that peers have does not.
func TestCanaryStopsAtHeldDeletions(t *testing.T) {
	for kind, want := range map[string]bool{reasons.DeletionsHeld: true, reasons.ReferenceDangling: false} {
		at := func(key string, some ...problems.Problem) *nodeLook {
			return &nodeLook{nodeState: nodeState{registration: registration{Document: key, Role: "entry"}, Config: &node.ConfigState{Problems: some}}}
		}
		p := func(subject string) problems.Problem {
			return problems.Problem{Kind: kind, Subject: subject, Severity: problems.SeverityError, Text: "it is so"}
		}
		now := fleetLook{nodes: map[string]*nodeLook{"entries/a": at("entries/a", p("entries/a")), "entries/b": at("entries/b", p("entries/b"))}}
		w := &canaryWatch{revision: 7}
		if got := w.newProblem("entries/a", at("entries/a"), now); got != "" != want {
			t.Errorf("%s: %q, want one: %v", kind, got, want)
		}
	}
}

// A node that misses looks is asked again before the trial fails for it; one that is not there is not.
func TestCanaryAsksAgain(t *testing.T) {
	for name, want := range map[string]struct {
		missed int32
		asked  int32
		ok     bool
	}{"ams-1": {missedLooks - 1, missedLooks, true}, "servers/ams/ams-1": {missedLooks, missedLooks, false}, "edge-9": {0, 1, false}} {
		var asked atomic.Int32
		pages := configured(node.ConfigState{Node: "ams-1"}).handler()
		pages.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
			if asked.Add(1) <= want.missed {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			fmt.Fprintln(w, "colonnade_build_info{} 1")
		})
		s := startEtcd(t)
		put(t, s, map[string]string{"servers/ams/ams-1": registered(serveHandler(t, pages))})
		f := newCanaryFleet(newPoller("http://"+s.Address, s.Client(t), nil), time.Second)
		defer f.close()
		l, err := f.lookFor(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := l.find(name); (n != nil && n.err == nil) != want.ok || asked.Load() != want.asked {
			t.Errorf("%s was asked %d times, and answers: %+v", name, asked.Load(), n)
		}
	}
}
