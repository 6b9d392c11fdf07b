package change

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/discovery/etcd"
	"colonnade/fleet/document"
)

// A change of a document by another command while this one decides ends this one, and the error says who it was; what this command has
// changed itself is no reason.
func TestClash(t *testing.T) {
	t.Parallel()
	docs := func(revision int64) etcd.Snapshot {
		return etcd.Snapshot{Documents: []etcd.Stored{{Key: "models/a", Revision: revision}}, Authored: 7, Author: etcd.Author{User: "bob", Command: "colonnade x"}}
	}
	e := etcd.Edit{Put: []document.Raw{{Key: "models/a"}}}
	f := func(want string, now etcd.Snapshot, e etcd.Edit, done ...etcd.Change) {
		t.Helper()
		if got := fmt.Sprint(clash(docs(5), now, e, done)); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f("<nil>", docs(5), e)
	f("<nil>", docs(6), etcd.Edit{Delete: []string{"models/b"}})
	f("<nil>", docs(6), e, etcd.Change{Revision: 6, Documents: []etcd.ChangedDocument{{Key: "models/a"}}})
	f("nothing was changed: models/a was changed at revision 6 while this command ran", docs(6), e)
	f("models/a was changed at revision 7 by bob: colonnade x while", docs(7), e)
	f("only 1 document changed: models/a was deleted", etcd.Snapshot{}, e, etcd.Change{Revision: 6, Documents: []etcd.ChangedDocument{{Key: "models/b"}}})
}
