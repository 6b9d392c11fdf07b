package document_test

import (
	"reflect"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

func TestJoinFile(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		got, err := document.JoinFile([]document.Raw{{Key: "pools/a", Value: []byte(value)}})
		if err != nil || string(got) != want {
			t.Errorf("%q: %v\n got %q\nwant %q", value, err, got, want)
		}
	}
	f("queue: {limit: 1}\n", "key: pools/a\nqueue: {limit: 1}\n")
	f("# why\nqueue:\n  limit: 1 # few\n\n# the end\n", "key: pools/a\n# why\nqueue:\n  limit: 1 # few\n\n# the end\n")
	f("queue: {limit: 1}", "key: pools/a\nqueue: {limit: 1}\n")
	f("queue: {limit: 1}\r\n", "key: pools/a\nqueue: {limit: 1}\n")
	f("# why\n---\nqueue: {limit: 1}\n...\n", "key: pools/a\n# why\nqueue: {limit: 1}\n")
	f("--- {queue: {limit: 1}}\n", "key: pools/a\nqueue:\n  limit: 1\n")
	f("# why\n{queue: {limit: 1}}\n", "key: pools/a\n# why\nqueue:\n  limit: 1\n")
	f("%YAML 1.1\n---\nqueue: {limit: 1}\n", "key: pools/a\nqueue:\n  limit: 1\n")
	f(`{"queue":{"max_wait":"1s","limit":1},"balance":{"policy":"no"}}`, "key: pools/a\nqueue:\n  max_wait: 1s\n  limit: 1\nbalance:\n  policy: \"no\"\n")
	f(`{"a":1e3,"b":[true,"1e3","a: b",0.5,12345678901234567],"c":{},"d":[]}`,
		"key: pools/a\na: 1000\nb:\n- true\n- \"1e3\"\n- 'a: b'\n- 0.5\n- 12345678901234567\nc: {}\nd: []\n")
	f("{}", "key: pools/a\n")
	f("{} # all defaults\n", "key: pools/a\n")
	f("x: 'a --- b'\n", "key: pools/a\nx: 'a --- b'\n")
}

func TestJoinFileLeavesOut(t *testing.T) {
	docs := []document.Raw{
		{Key: "pools/a", Value: []byte("x: [")}, {Key: "pools/b", Value: []byte("[1]")}, {Key: "pools/c", Value: []byte("x: 1")},
		{Key: "pools/d", Value: []byte("key: pools/e")}, {Key: "pools/f", Value: []byte("")}, {Key: "pools/g\n---\nkey: x", Value: []byte("x: 1")},
		{Key: "pools/h", Value: []byte("x: 2")},
	}
	got, err := document.JoinFile(docs)
	if want := "key: pools/c\nx: 1\n---\nkey: pools/h\nx: 2\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, want := range []string{"pools/a: ", "pools/b: the document must be a map", "pools/d: key: a document with a field of this name", "pools/f: ", "cannot be written into a file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
}

// FuzzJoinFile writes documents into a file and reads them again, and writes what was read from a file.
func FuzzJoinFile(f *testing.F) {
	for _, seed := range []string{
		"queue: {limit: 1}\n", "# a\n---\nb: 'c\n\n  d'\n...\n", `{"a":[1,2.50,"x"],"b":{"c":null}}`, "a: |\n  b\n   c\n", "? a\n: b\n", "a: 'key: b'\n",
		"\"a\": {\"b\": ~}\n", "a: \"b\\\n  c\"\n", "%TAG ! x\n---\na: b\n", "{a: b,\n # c\n d: e}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		file, err := document.JoinFile([]document.Raw{{Key: "pools/a", Value: value}, {Key: "models/b", Value: []byte("x: 1\n")}})
		docs, splitErr := document.SplitFile(file)
		if splitErr != nil {
			t.Fatalf("%q of %q: %v", file, value, splitErr)
		}
		last := docs[len(docs)-1]
		if err == nil && (len(docs) != 2 || docs[0].Key != "pools/a") || last.Key != "models/b" || string(last.Value) != "x: 1\n" {
			t.Fatalf("%q of %q: %q", file, value, docs)
		}
		if err != nil {
			return
		}
		if was, is := document.Check("pools/a", value), document.Check("pools/a", docs[0].Value); was == nil && is != nil {
			t.Fatalf("%q was good, and is %v as %q", value, is, docs[0].Value)
		}
		again, err := document.JoinFile(docs)
		if err != nil {
			t.Fatalf("%q: %v", docs, err)
		}
		twice, err := document.SplitFile(again)
		if err != nil || !reflect.DeepEqual(twice, docs) {
			t.Fatalf("%q, %v, then %q", docs, err, twice)
		}
	})
}
