package document_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

// Operators write all kinds but those that nodes and commands write, and each has a schema without dangling references.
func TestSchemasOfOperatorsKinds(t *testing.T) {
	t.Parallel()
	parts, err := document.Schemas("#/components/schemas/")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range document.OperatorKinds() {
		names = append(names, string(k.Kind))
		if parts[string(k.Kind)] == nil || k.About == "" {
			t.Errorf("%s has no schema, or no description", k.Kind)
		}
	}
	if got, want := strings.Join(names, " "), "defaults models pools endpoints colos flows accounts keys limits issuers captures sinks"; got != want {
		t.Errorf("operators write %s, want %s", got, want)
	}
	if parts["servers"] != nil || parts["deletions"] != nil {
		t.Error("a kind that nodes write has a schema")
	}
	for name, part := range parts {
		if !json.Valid(part) || bytes.Contains(part, []byte("$defs")) {
			t.Errorf("%s: %s", name, part)
		}
		for _, piece := range bytes.Split(part, []byte(`"#/components/schemas/`))[1:] {
			target, _, _ := bytes.Cut(piece, []byte(`"`))
			if parts[string(target)] == nil {
				t.Errorf("%s refers to %s, which there is not", name, target)
			}
		}
	}
}

// The key in a document is taken out of it; comments stay.
func TestOwnKey(t *testing.T) {
	t.Parallel()
	f := func(text, key, value, wrong string) {
		t.Helper()
		got, err := document.OwnKey([]byte(text))
		if (err != nil) != (wrong != "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v, want %q", text, err, wrong)
		} else if err == nil && (got.Key != key || string(got.Value) != value) {
			t.Errorf("%q: got %s %q, want %s %q", text, got.Key, got.Value, key, value)
		}
	}
	f("pool: p\n", "", "pool: p\n", "")
	f("# why\nkey: models/m\npool: p # because\n", "models/m", "# why\npool: p # because\n", "")
	f(`{"key":"models/m","pool":"p"}`, "models/m", `{"pool":"p"}`, "")
	f(`{"pool":"p"}`, "", `{"pool":"p"}`, "")
	f("---\nkey: models/m\npool: p\n", "models/m", "pool: p\n", "")
	f("key: 5\n", "", "", "each document of a file needs its key")
	f("key: a\n---\nkey: b\n", "", "", "more than one document")
	f("[1]", "", "", "must be a map")
	f("", "", "", "empty")
}
