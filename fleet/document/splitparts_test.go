package document_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

// Parts cover the file, and say where each document stands.
func TestSplitParts(t *testing.T) {
	const file = "# header\n\nkey: pools/a\nx: 1\n---\n# only a comment\n--- # why\n\nkey: pools/b\n---\nx: 1\n--- {key: pools/c}\n...\n---\nkey: \"\"\n"
	parts, err := document.SplitParts([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	end := 0
	for _, p := range parts {
		if p.Begin != end {
			t.Errorf("a part begins at %d, and the one before ends at %d", p.Begin, end)
		}
		end = p.End
		got = append(got, fmt.Sprintf("%d %q %q %v", p.Line, p.Key, file[p.Begin:p.End], p.Err != nil))
	}
	if end != len(file) {
		t.Errorf("the last part ends at %d of %d", end, len(file))
	}
	want := []string{
		`3 "pools/a" "# header\n\nkey: pools/a\nx: 1\n" false`, `5 "" "---\n# only a comment\n" false`, `9 "pools/b" "--- # why\n\nkey: pools/b\n" false`,
		`11 "" "---\nx: 1\n" true`, `12 "pools/c" "--- {key: pools/c}\n" false`, `13 "" "...\n" false`, `15 "" "---\nkey: \"\"\n" true`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if parts, err := document.SplitParts(nil); err != nil || len(parts) != 1 || parts[0].Key != "" || parts[0].Err != nil || parts[0].Line != 1 {
		t.Errorf("of nothing: %v, %v", parts, err)
	}
	if _, err := document.SplitParts(make([]byte, document.MaxFile+1)); err == nil {
		t.Error("a file that is too large has no error")
	}
}

func TestJoinJSON(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		got, err := document.JoinJSON(document.Raw{Key: "pools/a", Value: []byte(value)})
		if err != nil && want != "" || string(got) != want {
			t.Errorf("%q: %v\n got %q\nwant %q", value, err, got, want)
		}
	}
	f("# why\nqueue: {limit: 1}\n", "{\n  \"key\": \"pools/a\",\n  \"queue\": {\n    \"limit\": 1\n  }\n}\n")
	f(`{"x": 12345678901234567}`, "{\n  \"key\": \"pools/a\",\n  \"x\": 12345678901234567\n}\n")
	f("x: [", "")
	f("key: pools/b", "")
}
