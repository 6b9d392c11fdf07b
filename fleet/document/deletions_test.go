package document_test

import (
	"encoding/json"
	"strings"
	"testing"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

func TestDeletions(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		err := document.Check("deletions", []byte(value))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", value, err, want)
		}
	}
	f("confirmed: 0", "")
	f(`{"confirmed": 9223372036854775807}`, "")
	f("{}", "confirmed: the field is required")
	f("confirmed: -1", "must be at least 0")
	f("confirmed: '7'", "must be a whole number")
	f("{confirmed: 7, until: 8}", "until: unknown field; accepted here: confirmed")

	docs := documents(t, "deletions", "confirmed: 7")
	if d, ok := docs.Noun("deletions").(*fleet.Deletions); !ok || d.Confirmed != 7 {
		t.Errorf("got %+v", d)
	}
	if docs.Noun("defaults") != nil {
		t.Error("there are defaults")
	}
	table := docs.Table()
	table.PendingDeletions, table.ExpiredLeases = []string{"models/a"}, []string{"endpoints/ams/e"}
	shown, err := json.Marshal(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"deletions":{"confirmed":7}`, `"pending_deletions":["models/a"]`, `"expired_leases":["endpoints/ams/e"]`} {
		if !strings.Contains(string(shown), want) {
			t.Errorf("the table is shown without %s: %s", want, shown)
		}
	}
}
