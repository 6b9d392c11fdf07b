package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// A document under a lease is not tried: its registrar would overwrite it.
func TestCanaryRefusesLeased(t *testing.T) {
	s := startEtcd(t)
	putLeased(t, s, "endpoints/ams/leased")
	put(t, s, map[string]string{"pools/p": "{}"})
	trial := trialAt(t, s)
	f := func(want string, e etcd.Edit) {
		t.Helper()
		err := trial.prepare(t.Context(), func(context.Context, []etcd.Stored) (etcd.Edit, error) { return e, nil })
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f("endpoints/ams/leased is registered under a lease", etcd.Edit{Put: []document.Raw{{Key: "endpoints/ams/leased", Value: []byte("{url: 'http://h:3', pool: p}")}}})
	f("endpoints/ams/leased is registered under a lease", etcd.Edit{Delete: []string{"endpoints/ams/leased"}})
	f("", etcd.Edit{Put: []document.Raw{{Key: "pools/p", Value: []byte("{queue: {limit: 7}}")}}})
}

// A commit that has not been answered is found where it was carried out, with what a rollback needs, and cannot be carried out later
// where it was not.
func TestCanarySettles(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{canaryKey: "{address: '127.0.0.1:1', state: active}", "pools/p": "{}"})
	trial := trialAt(t, s)
	trial.decide(t, etcd.Edit{Put: []document.Raw{{Key: "pools/p", Value: []byte("{queue: {limit: 7}}")}, {Key: "pools/q", Value: []byte("{}")}}})
	unanswered := errors.New("no answer")
	e := trial.plan.Edit
	e.Stage = trial.stage(t)
	if _, err := trial.settled(t.Context(), keepStage(t.Context(), e.Stage), unanswered); err == nil || !strings.Contains(err.Error(), "not applied: no answer") {
		t.Errorf("before the commit: %v", err)
	}
	if _, err := trial.docs.Writer().Commit(t.Context(), trial.read, e); !errors.Is(err, etcd.ErrStageLost) {
		t.Errorf("a commit that comes late: %v", err)
	}
	e.Stage = trial.stage(t)
	kept := keepStage(t.Context(), e.Stage)
	all, err := trial.docs.Writer().Commit(t.Context(), trial.read, e)
	if err != nil {
		t.Fatal(err)
	}
	done, err := trial.settled(t.Context(), kept, unanswered)
	if err != nil || done.Revision != all[0].Revision || len(done.Documents) != 2 {
		t.Fatalf("after the commit: %+v, %v", done, err)
	}
	if _, _, err := trial.rollBack(t.Context(), done); err != nil || stored(t, s, "pools/p") != "{}" || stored(t, s, "pools/q") != "" {
		t.Errorf("not rolled back: %v", err)
	}
}

// The command says only what it knows: that a change was taken back if it was, and not what a commit has done without etcd.
func TestCanaryTakesBack(t *testing.T) {
	s := startEtcd(t)
	put(t, s, map[string]string{canaryKey: "{address: '127.0.0.1:1', state: active}"})
	trial := trialAt(t, s)
	trial.decide(t, etcd.Edit{Put: []document.Raw{{Key: "pools/q", Value: []byte("{}")}}})
	if got := trial.takeBack(keepStage(t.Context(), trial.stage(t))); got != "the change was taken back from "+trial.node.name() || stored(t, s, etcd.StagedKey(canaryKey)) != "" {
		t.Errorf("got %q", got)
	}
	kept := keepStage(t.Context(), trial.stage(t))
	if err := trial.docs.Client.Close(); err != nil {
		t.Fatal(err)
	}
	if got := trial.takeBack(kept); !strings.Contains(got, "has the change until its lease ends") {
		t.Errorf("without etcd: %q", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := trial.settled(ended, kept, errors.New("no answer")); err == nil || !strings.Contains(err.Error(), "whether the change was applied is not known") {
		t.Errorf("without etcd, interrupted: %v", err)
	}
}
