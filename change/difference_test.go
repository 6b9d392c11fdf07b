package change_test

import (
	"testing"

	"colonnade/change"
	"colonnade/discovery/etcd"
)

// The history keeps the empty text for the side on which there is no document; it is no document that cannot be read.
func TestDifferencesWithoutADocument(t *testing.T) {
	for action, values := range map[string][2]string{
		etcd.ActionCreated: {"", "pool: demo\n"},
		etcd.ActionDeleted: {"pool: demo\n", ""},
	} {
		if d := change.NewDifference("models/demo", action, []byte(values[0]), []byte(values[1])); d.Note != "" {
			t.Errorf("%s: %q", action, d.Note)
		}
	}
}
