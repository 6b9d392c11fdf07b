package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"colonnade/fleet"
)

// hash is one that can be told from others in a text.
func hash(b byte) (h fleet.KeyHash) {
	for i := range h {
		h[i] = 0xa0 + b // no digits alone, which YAML would take for a number
	}
	return h
}

// short writes hashes as H1, H2… so that documents can be read here.
func short(text []byte) string {
	s := string(text)
	for b := range byte(10) {
		s = strings.ReplaceAll(s, fmt.Sprintf("%x", hash(b)), fmt.Sprintf("H%d", b))
	}
	return s
}

// long is its reverse.
func long(s string) string {
	for b := range byte(10) {
		s = strings.ReplaceAll(s, fmt.Sprintf("H%d", b), fmt.Sprintf("%x", hash(b)))
	}
	return s
}

func TestAddKey(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		got, err := fleet.AddKey("acme", []byte(long(text)), fleet.Key{ID: "no", SHA256: hash(9)})
		if err != nil || short(got) != want {
			t.Errorf("%q: %v\n got %q\nwant %q", text, err, short(got), want)
		}
	}
	f("", "keys:\n  - {id: \"no\", sha256: \"H9\"}\n")
	f("weight: 2", "weight: 2\nkeys:\n  - {id: \"no\", sha256: \"H9\"}\n")
	f("# ours\n\nweight: 2 # twice\n\n# models: [a]\n", "# ours\n\nweight: 2 # twice\n\n# models: [a]\nkeys:\n  - {id: \"no\", sha256: \"H9\"}\n")
	f("limits:\n    concurrent: 3\n", "limits:\n    concurrent: 3\nkeys:\n  - {id: \"no\", sha256: \"H9\"}\n")
	f("weight: 2\r\nadmin: true\r\n", "weight: 2\r\nadmin: true\r\nkeys:\r\n  - {id: \"no\", sha256: \"H9\"}\r\n")
	f("{} # all defaults\n", "{keys: [{id: \"no\", sha256: \"H9\"}]} # all defaults\n")
	f("---\nweight: 2\n", "---\nweight: 2\nkeys:\n  - {id: \"no\", sha256: \"H9\"}\n")
	f("  weight: 2\n  admin: true\n", "  weight: 2\n  admin: true\n  keys:\n    - {id: \"no\", sha256: \"H9\"}\n")

	// Lists in flow style.
	f("keys: [] # none yet\nweight: 2\n", "keys: [{id: \"no\", sha256: \"H9\"}] # none yet\nweight: 2\n")
	f("keys: [{id: a, sha256: 'H1'}]\n\nweight: 2\n", "keys: [{id: a, sha256: 'H1'}, {id: \"no\", sha256: \"H9\"}]\n\nweight: 2\n")
	f("keys: [\n  {id: a, sha256: 'H1'}, # one\n  {id: b, sha256: 'H2'}, # two\n]\n",
		"keys: [\n  {id: a, sha256: 'H1'}, # one\n  {id: b, sha256: 'H2'}, # two\n  {id: \"no\", sha256: \"H9\"},\n]\n")
	f("{weight: 2, keys: [{id: a, sha256: 'H1'}]}", "{weight: 2, keys: [{id: a, sha256: 'H1'}, {id: \"no\", sha256: \"H9\"}]}")
	f("{weight: 2}", "{keys: [{id: \"no\", sha256: \"H9\"}], weight: 2}")
	f("{version: 2, new: ['é} it', \"]\\\"\"], keys: [{id: a, sha256: 'H1'}]}", "{version: 2, new: ['é} it', \"]\\\"\"], keys: [{id: a, sha256: 'H1'}, {id: \"no\", sha256: \"H9\"}]}")

	// Lists in block style.
	f("keys:\n- id: a\n  sha256: H1 # Ann's\n\nweight: 2\n", "keys:\n- id: a\n  sha256: H1 # Ann's\n- id: \"no\"\n  sha256: \"H9\"\n\nweight: 2\n")
	f("keys:\n  - {id: a, sha256: 'H1'}\n  # the end", "keys:\n  - {id: a, sha256: 'H1'}\n  - {id: \"no\", sha256: \"H9\"}\n  # the end")
	f("keys:\n  -   sha256: 'H1'\n      id: a", "keys:\n  -   sha256: 'H1'\n      id: a\n  -   id: \"no\"\n      sha256: \"H9\"\n")
	f("keys:\n  -\n    id: a # Ann's\n    sha256: 'H1'\n", "keys:\n  - id: a # Ann's\n    sha256: 'H1'\n  - {id: \"no\", sha256: \"H9\"}\n")
	f("weight: 2 # twice\n...\n", "weight: 2 # twice\nkeys:\n  - {id: \"no\", sha256: \"H9\"}\n")

	// JSON.
	f(`{}`, `{"keys":[{"id":"no","sha256":"H9"}]}`)
	f(`{"weight":2}`, `{"keys":[{"id":"no","sha256":"H9"}],"weight":2}`)
	f(`{"weight":2,"keys":[{"id":"a","sha256":"H1"}]}`, `{"weight":2,"keys":[{"id":"a","sha256":"H1"},{"id":"no","sha256":"H9"}]}`)
	f("{\n  \"keys\": [\n    {\n      \"id\": \"a\",\n      \"sha256\": \"H1\"\n    }\n  ],\n  \"weight\": 2\n}\n",
		"{\n  \"keys\": [\n    {\n      \"id\": \"a\",\n      \"sha256\": \"H1\"\n    },\n    {\n      \"id\": \"no\",\n      \"sha256\": \"H9\"\n    }\n  ],\n  \"weight\": 2\n}\n")
	f("{\n\t\"weight\": 2\n}\n", "{\n\t\"keys\": [{\"id\": \"no\", \"sha256\": \"H9\"}],\n\t\"weight\": 2\n}\n")
}

func TestAddKeyTimes(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600))
	got, err := fleet.AddKey("acme", nil, fleet.Key{ID: "k", SHA256: hash(1), Created: at, Expires: at.Add(time.Hour)})
	want := `{id: "k", sha256: "H1", created: "2026-01-31T11:00:00Z", expires: "2026-01-31T12:00:00Z"}`
	if err != nil || !strings.Contains(short(got), want) {
		t.Errorf("%v, %s", err, got)
	}
}

func TestRemoveKey(t *testing.T) {
	f := func(text, id, want string) {
		t.Helper()
		got, err := fleet.RemoveKey("acme", []byte(long(text)), id)
		if err != nil || short(got) != want {
			t.Errorf("%q: %v\n got %q\nwant %q", text, err, short(got), want)
		}
	}
	const block = "# ours\n\nkeys: # of acme\n  # Ann's\n  - id: a\n    # soon\n    sha256: H1\n    # the end of a\n\n  # Bob's\n  - {id: b, sha256: 'H2'} # b\n\n  - id: c\n    sha256: 'H3'\n\nweight: 2\n"
	f(block, "a", "# ours\n\nkeys: # of acme\n    # the end of a\n\n  # Bob's\n  - {id: b, sha256: 'H2'} # b\n\n  - id: c\n    sha256: 'H3'\n\nweight: 2\n")
	f(block, "b", "# ours\n\nkeys: # of acme\n  # Ann's\n  - id: a\n    # soon\n    sha256: H1\n    # the end of a\n\n\n  - id: c\n    sha256: 'H3'\n\nweight: 2\n")
	f(block, "c", "# ours\n\nkeys: # of acme\n  # Ann's\n  - id: a\n    # soon\n    sha256: H1\n    # the end of a\n\n  # Bob's\n  - {id: b, sha256: 'H2'} # b\n\n\nweight: 2\n")
	f("keys: # of acme\n- id: a\n  sha256: 'H1'\nweight: 2\n", "a", "keys: [] # of acme\nweight: 2\n")
	f("weight: 2\n'keys':\n  - {id: a, sha256: 'H1'}", "a", "weight: 2\n'keys': []\n")
	f("keys: [{id: a, sha256: 'H1'}] # no more\n", "a", "keys: [] # no more\n")
	f("keys: [{id: a, sha256: 'H1'}, {id: b, sha256: 'H2'}, {id: c, sha256: 'H3'}]", "a", "keys: [{id: b, sha256: 'H2'}, {id: c, sha256: 'H3'}]")
	f("keys: [{id: a, sha256: 'H1'}, {id: b, sha256: 'H2'}, {id: c, sha256: 'H3'}]", "b", "keys: [{id: a, sha256: 'H1'}, {id: c, sha256: 'H3'}]")
	f("keys: [{id: a, sha256: 'H1'}, {id: b, sha256: 'H2'}, {id: c, sha256: 'H3'}]", "c", "keys: [{id: a, sha256: 'H1'}, {id: b, sha256: 'H2'}]")
	f("keys:\n  -\n    id: a # Ann's\n    sha256: 'H1'\n  - id: b\n    sha256: 'H2'\n", "b", "keys:\n  -\n    id: a # Ann's\n    sha256: 'H1'\n")
	f(`{"keys":[{"id":"a","sha256":"H1"},{"id":"b","sha256":"H2"}],"weight":2}`, "a", `{"keys":[{"id":"b","sha256":"H2"}],"weight":2}`)
	f("{\n  \"keys\": [\n    {\"id\": \"a\", \"sha256\": \"H1\"}\n  ]\n}\n", "a", "{\n  \"keys\": []\n}\n")
}

func TestKeyEditErrors(t *testing.T) {
	const text = "keys: [{id: a, sha256: 'H1'}]\n"
	if _, err := fleet.AddKey("acme", []byte(long(text)), fleet.Key{ID: "a"}); !errors.Is(err, fleet.ErrKeyTaken) {
		t.Errorf("a taken id: %v", err)
	}
	if _, err := fleet.RemoveKey("acme", []byte(long(text)), "b"); !errors.Is(err, fleet.ErrKeyUnknown) {
		t.Errorf("an unknown id: %v", err)
	}
	for _, bad := range []string{"weight: 0\n", "x", "keys: 3", "weight: 1\nweight: 2\n"} {
		var invalid *fleet.InvalidError
		if out, err := fleet.AddKey("acme", []byte(bad), fleet.Key{ID: "a"}); !errors.As(err, &invalid) || invalid.Key != "accounts/acme" || out != nil {
			t.Errorf("%q: %v, %q", bad, err, out)
		}
		if out, err := fleet.RemoveKey("acme", []byte(bad), "a"); !errors.As(err, &invalid) || out != nil {
			t.Errorf("%q: %v, %q", bad, err, out)
		}
	}
}

// A comment is about what it stands at: revoking a key takes its own along, loses no other, and leaves none over another key.
func TestRemoveKeyComments(t *testing.T) {
	f := func(text, id, want string) {
		t.Helper()
		got, err := fleet.RemoveKey("acme", []byte(long(text)), id)
		if err != nil || short(got) != want {
			t.Errorf("%q without %s: %v\n got %q\nwant %q", text, id, err, short(got), want)
		}
	}
	behind := "keys: [\n  {id: a, sha256: 'H1'}, # alice\n  {id: b, sha256: 'H2'}, # bob\n]\n"
	f(behind, "a", "keys: [\n  {id: b, sha256: 'H2'}, # bob\n]\n")
	f(behind, "b", "keys: [\n  {id: a, sha256: 'H1'}, # alice\n]\n")
	above := "keys: [\n  # alice\n  {id: a, sha256: 'H1'},\n  # bob\n  {id: b, sha256: 'H2'}]\n"
	f(above, "a", "keys: [\n  # bob\n  {id: b, sha256: 'H2'}]\n")
	f(above, "b", "keys: [\n  # alice\n  {id: a, sha256: 'H1'}]\n")
	f("keys: [ # all\n  {id: a, sha256: 'H1'}, # alice\n]\n", "a", "keys: [ # all\n]\n")
	f("keys: [{id: a, sha256: 'H1'}, # alice\n  {id: b, sha256: 'H2'}] # all\n", "a", "keys: [{id: b, sha256: 'H2'}] # all\n")
	f("keys: [{id: a, sha256: 'H1'}, # alice\n  {id: b, sha256: 'H2'}] # all\n", "b", "keys: [{id: a, sha256: 'H1'}, # alice\n] # all\n")
	f("keys: [{id: a, sha256: 'H1'}, {id: b, sha256: 'H2'}, # both\n]\n", "b", "keys: [{id: a, sha256: 'H1'}, # both\n]\n")
	f("keys:\n  - # alice\n    id: a\n    sha256: 'H1'\n  # bob\n  -\n    # Bob\n    id: b\n    sha256: 'H2' # b\n  # end\n", "b",
		"keys:\n  - # alice\n    id: a\n    sha256: 'H1'\n  # end\n")
	// Where the text cannot be taken apart, the library writes it anew, from its head to its foot.
	f("# head\n\nkeys:\n  - {id: a, sha256: 'H1'}\n  - id: b # bob\n    sha256: >-\n      H2\n\n# foot\n", "b", "# head\n\nkeys:\n  - {id: a, sha256: 'H1'}\n\n# foot\n")
	// Where the library would lose one, they all stand at the head.
	f("# head\nkeys: # keys\n  - {id: a, sha256: 'H1'} # alice\n  - id: b # bob\n    sha256: >- # hash\n      H2\nversion: 2\nnew: [ # none\n  'a #b'] # !\n", "b",
		"# head\n# keys\n# alice\n# none\n# !\nversion: 2\nnew:\n- 'a #b'\nkeys:\n- id: a\n  sha256: H1\n")
}

func TestAddKeyComments(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		got, err := fleet.AddKey("acme", []byte(long(text)), fleet.Key{ID: "no", SHA256: hash(9)})
		if err != nil || short(got) != want {
			t.Errorf("%q: %v\n got %q\nwant %q", text, err, short(got), want)
		}
	}
	f("# head\n\nkeys:\n  -\n    id: a\n    sha256: 'H1'\n\n# foot\n", "# head\n\nkeys:\n  - id: a\n    sha256: 'H1'\n  - {id: \"no\", sha256: \"H9\"}\n\n# foot\n")
	f("keys: [{id: a, sha256: 'H1'}, # alice\n]\n", "keys: [{id: a, sha256: 'H1'}, # alice\n  {id: \"no\", sha256: \"H9\"},\n]\n")
}
