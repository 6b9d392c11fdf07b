package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"colonnade/fleet"
)

func TestCarryKeys(t *testing.T) {
	f := func(text, old, want, change string) {
		t.Helper()
		got, c, err := fleet.CarryKeys("acme", []byte(long(text)), []byte(long(old)))
		if err != nil || short(got) != want || fmt.Sprint(c.Gone, c.Added, c.Changed) != change || c.None() != (change == "[] [] []") || c.Account != "acme" {
			t.Errorf("%q over %q: %v\n got %q, %+v\nwant %q, %s", text, old, err, short(got), c, want, change)
		}
	}
	const a, b = `{id: "a", sha256: "H1"}`, `{id: "b", sha256: "H2"}`
	// A document without the field gets the keys that are there.
	f("# ours\nweight: 4\n", "keys:\n  - "+a+"\n  - "+b+"\n", "# ours\nweight: 4\nkeys:\n  - "+a+"\n  - "+b+"\n", "[] [] []")
	f("{}", "weight: 0\nkeys: ["+a+"]", `{"keys":[{"id":"a","sha256":"H1"}]}`, "[] [] []") // the old one need not be good otherwise
	f("{weight: 4} # four\n", "keys: ["+a+", "+b+"]", "{keys: ["+a+", "+b+"], weight: 4} # four\n", "[] [] []")
	f("  weight: 4\r\n", "keys: ["+a+", "+b+"]", "  weight: 4\r\n  keys:\r\n    - "+a+"\r\n    - "+b+"\r\n", "[] [] []")
	f("\"weight\": 4 # "+a+"\n...\n", "keys: ["+a+", "+b+"]", "\"weight\": 4 # "+a+"\nkeys:\n  - "+a+"\n  - "+b+"\n", "[] [] []")
	f("weight: 4\n", "", "weight: 4\n", "[] [] []")
	f("weight: 4\n", "weight: 5\n", "weight: 4\n", "[] [] []")
	f("weight: 4\n", "keys: []\n", "weight: 4\n", "[] [] []")
	// One with the field means it.
	f("keys: []\n", "keys: ["+a+", "+b+"]", "keys: []\n", "[a b] [] []")
	f("keys: ["+a+"]", "keys: ["+b+"]", "keys: ["+a+"]", "[b] [a] []")
	f("keys: ["+a+"]", "", "keys: ["+a+"]", "[] [a] []")
	f("keys: ["+a+"]", "keys: ["+a+"]", "keys: ["+a+"]", "[] [] []")
	f(`keys: [{id: a, sha256: "H2"}]`, "keys: ["+a+"]", `keys: [{id: a, sha256: "H2"}]`, "[] [] [a]")
	f(`keys: [{id: a, sha256: "H1", expires: "2999-01-31T12:00:00Z"}]`, "keys: ["+a+"]", `keys: [{id: a, sha256: "H1", expires: "2999-01-31T12:00:00Z"}]`, "[] [] [a]")
	f("keys: ["+a+"]", "keys: [", "keys: ["+a+"]", "[] [a] []")

	// Keys that cannot be kept are not dropped.
	for _, old := range []string{"keys: [", "keys: [{id: a}]", `keys: [{id: "a", sha256: "H1", scope: chat}]`, "keys: [" + a + "," + a + "]"} {
		_, _, err := fleet.CarryKeys("acme", []byte("weight: 4\n"), []byte(long(old)))
		var invalid *fleet.InvalidError
		if !errors.As(err, &invalid) || invalid.Key != "accounts/acme" || !strings.Contains(err.Error(), "keys: [] for none") {
			t.Errorf("over %q: %v", old, err)
		}
	}
}
