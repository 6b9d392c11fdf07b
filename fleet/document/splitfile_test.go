package document_test

import (
	"reflect"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

func TestSplitFile(t *testing.T) {
	f := func(in string, want ...string) {
		t.Helper()
		docs, err := document.SplitFile([]byte(in))
		if err != nil {
			t.Errorf("SplitFile(%q): %v", in, err)
			return
		}
		var got []string
		for _, d := range docs {
			got = append(got, d.Key, string(d.Value))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("SplitFile(%q)\n got %q\nwant %q", in, got, want)
		}
	}
	f("")
	f("# only a comment\n---\n")
	f("key: pools/a\nqueue: {limit: 1}\n", "pools/a", "queue: {limit: 1}\n")
	f("---\n# why\nkey: pools/a\nqueue:\n  limit: 1 # few\n---\n\n---\nkey: pools/b\nbeta: no\n...\n",
		"pools/a", "# why\nqueue:\n  limit: 1 # few\n", "pools/b", "beta: no\n")
	f("--- {key: pools/a, x: 1}\n--- # comment\nkey: pools/b\nb: 2\n", "pools/a", `{"x":1}`, "pools/b", "# comment\nb: 2\n")
	f("key: pools/a\r\nx: 1\r\n---\r\nkey: pools/b\r\nb: '1'\r\n", "pools/a", "x: 1\r\n", "pools/b", "b: '1'\r\n")
	f(`{"key": "pools/a", "x": 1.5, "y": [true, 12345678901234567]}`, "pools/a", `{"x":1.5,"y":[true,12345678901234567]}`)
	f("key: pools/a\nx: a---b\n", "pools/a", "x: a---b\n")
	f("key:\n  pools/a\nx: 1\n", "pools/a", `{"x":1}`)
	f("key: pools/a\n", "pools/a", "{}")
	f("\"key\": pools/a\nx: 1\n", "pools/a", `{"x":1}`)
}

func TestSplitFileRejects(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		_, err := document.SplitFile([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SplitFile(%q) = %v, want %q", in, err, want)
		}
	}
	f("key: pools/a\n---\nqueue: {limit: 1}\n", "cannot read document 2 of the file (from line 2): key: each document of a file needs its key")
	f("a: 1\n---\nkey: pools/a\n---\nb: 2\n", "document 3 of the file (from line 4): key: ")
	f("# comment\n---\nkey: pools/a\n---\nkey: 7\n", "document 2 of the file (from line 4): key: ")
	f("key: pools/a\nx: 1\nx: 2\n", "document 1 of the file (from line 1): x: the field is given twice")
	f("key: pools/a\nkey: pools/b\n", "document 1 of the file (from line 1): key: the field is given twice")
	f("key: pools/a\nx: null\n", "document 1 of the file (from line 1): x: null")
	f("key: pools/a\nx: [\n", "document 1 of the file (from line 1): the document is not valid YAML")
	f("key: pools/a\n"+strings.Repeat("#", document.MaxFile), "at most 16777216 are accepted")
}
