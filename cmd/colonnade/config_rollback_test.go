package main

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/discovery/etcd"
)

// A rollback puts back what the history has, says what it does not have, and leaves registrations alone.
func TestUndo(t *testing.T) {
	change := func(revision int64, docs ...etcd.ChangedDocument) etcd.Change {
		return etcd.Change{Revision: revision, Documents: docs}
	}
	history := []etcd.Change{
		change(30, etcd.ChangedDocument{Key: "models/a", Action: etcd.ActionChanged, Old: "two", New: "three", OldRevision: 20},
			etcd.ChangedDocument{Key: "deletions", Action: etcd.ActionChanged, Old: "confirmed: 5", New: "confirmed: 29", OldRevision: 6},
			etcd.ChangedDocument{Key: "endpoints/ams/leased", Action: etcd.ActionChanged, Old: "written", New: "too", OldRevision: 7},
			etcd.ChangedDocument{Key: "models/gone", Action: etcd.ActionDeleted, Old: "x", OldRevision: 5}),
		change(20, etcd.ChangedDocument{Key: "models/a", Action: etcd.ActionChanged, Old: "one", New: "two", OldRevision: 10},
			etcd.ChangedDocument{Key: "models/new", Action: etcd.ActionCreated, New: "n"}),
		change(10, etcd.ChangedDocument{Key: "models/a", Action: etcd.ActionCreated, New: "one"}),
	}
	before := []etcd.Stored{{Key: "deletions", Revision: 50}, {Key: "endpoints/ams/leased", Revision: 40, Leased: true}, {Key: "models/a", Revision: 30}, {Key: "models/new", Revision: 20}}
	// want is a part of the error, or if it ends with a space, the whole change.
	f := func(want string, revision int64, force bool, history []etcd.Change, before []etcd.Stored) {
		t.Helper()
		e, err := undo(history, before, revision, force)
		var got strings.Builder
		for _, d := range e.Put {
			fmt.Fprintf(&got, "%s=%s ", d.Key, d.Value)
		}
		for _, key := range e.Delete {
			fmt.Fprintf(&got, "-%s ", key)
		}
		if err != nil {
			got.WriteString(err.Error())
		}
		if whole := strings.HasSuffix(want, " "); whole && got.String() != want || !strings.Contains(got.String(), want) || want == "" {
			t.Errorf("to revision %d: %s, want %q", revision, got.String(), want)
		}
	}
	f("models/a=two models/gone=x ", 29, false, history, before)
	f("models/a=two models/gone=x ", 20, false, history, before)
	f("models/a=one models/gone=x -models/new ", 19, false, history, before)
	f("models/gone=x -models/a -models/new ", 9, false, history, before)
	f("does not reach back to revision 8: it begins with the change of revision 10", 8, false, history, before)
	f("nothing to undo: the newest change is of revision 30", 30, false, history, before)
	f("there is no history", 8, false, nil, before)

	put := append([]etcd.Stored{}, before...)
	put[3].Revision, put[3].Key = 35, "models/put"
	f("another program than colonnade has changed, since revision 19: models/put (revision 35)", 19, false, history, put)
	f("models/a=one models/gone=x ", 19, true, history, put)
	hidden := []etcd.Change{history[0], change(15, etcd.ChangedDocument{Key: "pools/p", Action: etcd.ActionCreated})}
	f("models/a (revision 20)", 15, false, hidden, before[:3])
	f("models/gone=x ", 15, true, hidden, before[:3])
	f("models/a=one models/gone=x ", 19, false, history, before[:3]) // models/new has gone by itself
	large := append([]etcd.Change{}, history...)
	large[0].Omitted = true
	f("the change of revision 30 was too large", 20, false, large, before)
}
