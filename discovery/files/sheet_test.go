package files

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

// write writes a file below a directory, which only its owner may read.
func writeFile(t *testing.T, dir, name, text string) (file string) {
	t.Helper()
	file = filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func raw(key, value string) document.Raw { return document.Raw{Key: key, Value: []byte(value)} }

const threeDocuments = `# Our place.
# yaml-language-server: $schema=x

# generous
key: pools/a
queue: {limit: 1} # few

---
# why
key:   pools/b
queue:   {limit:    2}

# below
--- # c
key: "pools/c"
queue:
    limit: 3`

// Whatever changes, the text of the other documents stays as it is.
func TestEditKeepsOtherText(t *testing.T) {
	t.Parallel()
	first, rest, _ := strings.Cut(threeDocuments, "---\n")
	second, third, _ := strings.Cut(rest, "--- # c\n")
	head, _, _ := strings.Cut(first, "# generous")
	second, third = "---\n"+second, "--- # c\n"+third
	f := func(name, want string, change func(path string) error) {
		t.Helper()
		path := writeFile(t, t.TempDir(), "x.yaml", threeDocuments)
		if err := change(path); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := readFile(t, path); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	apply := func(docs ...document.Raw) func(string) error {
		return func(path string) error {
			_, err := apply(t, path, docs)
			return err
		}
	}
	remove := func(keys ...string) func(string) error {
		return func(path string) error {
			_, err := Delete(t.Context(), path, keys)
			return err
		}
	}
	f("nothing", threeDocuments, apply())
	f("the same", threeDocuments, apply(raw("pools/b", "# why\nqueue:   {limit:    2}\n\n# below")))
	f("first replaced", head+"key: pools/a\nqueue: {limit: 9}\n"+second+third, apply(raw("pools/a", "queue: {limit: 9}")))
	f("first read, replaced", head+"key: pools/a\n# generous\nqueue: {limit: 9}\n"+second+third, func(path string) error {
		docs, err := Read(path)
		if err != nil {
			return err
		}
		docs[0].Value = bytes.Replace(docs[0].Value, []byte("1} # few"), []byte("9}"), 1)
		return apply(docs[0].Raw)(path)
	})
	f("second replaced", first+"---\nkey: pools/b\n# new\nqueue: {limit: 9}\n"+third, apply(raw("pools/b", "# new\nqueue: {limit: 9}\n")))
	f("third replaced", first+second+"---\nkey: pools/c\nqueue:\n  limit: 9\n", apply(raw("pools/c", `{"queue":{"limit":9}}`)))
	f("two added", threeDocuments+"\n---\nkey: pools/d\nqueue: {limit: 4}\n---\nkey: models/m\npool: a\n", apply(raw("pools/d", "queue: {limit: 4}"), raw("models/m", "pool: a")))
	f("first removed", head+second+third, remove("pools/a"))
	f("second removed", first+third, remove("pools/b"))
	f("third removed", first+second, remove("pools/c"))
	f("absent removed", threeDocuments, remove("pools/x"))
	f("all removed", head, remove("pools/a", "pools/b", "pools/c"))
	f("all at once", head+"key: pools/a\nqueue: {limit: 9}\n"+second+"---\nkey: pools/d\n", func(path string) error {
		_, err := Edit(t.Context(), path, func(docs []Located) ([]Located, error) {
			docs[0].Value = []byte("queue: {limit: 9}")
			return append(docs[:2], Located{Raw: raw("pools/d", "{}")}), nil
		})
		return err
	})
}

// A file without documents is neither empty, which would look half written, nor does it keep its note when it has documents again.
func TestEditOfTheLastDocument(t *testing.T) {
	t.Parallel()
	path := writeFile(t, t.TempDir(), "x.yaml", "---\nkey: pools/a\n")
	for _, want := range []string{"# no documents\n", "key: pools/b\n"} {
		if _, err := Delete(t.Context(), path, []string{"pools/a"}); err != nil {
			t.Fatal(err)
		}
		if want != "# no documents\n" {
			if _, err := Create(t.Context(), path, raw("pools/b", "{}")); err != nil {
				t.Fatal(err)
			}
		}
		if got := readFile(t, path); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A JSON file stays one.
func TestEditOfJSON(t *testing.T) {
	t.Parallel()
	path := writeFile(t, t.TempDir(), "x.json", `{"key": "pools/a", "queue": {"limit": 1}}`)
	if _, err := apply(t, path, []document.Raw{raw("pools/a", "# why\nqueue: {limit: 2}")}); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"key\": \"pools/a\",\n  \"queue\": {\n    \"limit\": 2\n  }\n}\n"
	if got := readFile(t, path); got != want {
		t.Errorf("got %s", got)
	}
	_, err := Create(t.Context(), path, raw("pools/b", "{}"))
	if err == nil || !strings.Contains(err.Error(), path+": a JSON file holds one document; use a YAML file, or a directory") || readFile(t, path) != want {
		t.Errorf("%v; the file is %s", err, readFile(t, path))
	}
}

// FuzzSheet changes one document of a file, and reads all again.
func FuzzSheet(f *testing.F) {
	f.Add([]byte(threeDocuments), []byte("queue: {limit: 7}\n"), 1)
	f.Add([]byte("--- {key: pools/a}\n...\nkey: pools/b\r\nx: |\n  a\n --- \n"), []byte("x: 'a\n\n  ---'\n"), 0)
	f.Add([]byte("{\"key\": \"pools/a\"}\n---\n\n\n# x\n---\nkey: pools/b"), []byte("{}"), 5)
	f.Add([]byte("# a\n\n# b\n\nkey: pools/a\n# c"), []byte("# a\n\n# b\n\n{}"), 2)
	f.Fuzz(func(t *testing.T, text, value []byte, which int) {
		parts, err := document.SplitParts(text)
		if err != nil {
			return
		}
		var before []Located
		for _, p := range parts {
			if p.Err != nil {
				return
			}
			if p.Key != "" {
				before = append(before, Located{Raw: p.Raw, File: "x.yaml", Line: p.Line})
			}
		}
		after := slices.Clone(before)
		switch at := max(which, -which, 0) % (2*len(before) + 1); {
		case at < len(before):
			after = slices.Delete(after, at, at+1)
		case at < 2*len(before):
			after[at-len(before)].Value = value
		default:
			after = append(after, Located{Raw: document.Raw{Key: "models/new", Value: value}, File: "x.yaml"})
		}
		s := sheet{source: source{file: "x.yaml", data: text}, parts: parts}
		changed, err := s.rewrite(after)
		if err != nil {
			return // the value is no document
		}
		got, err := document.SplitFile(changed)
		if err != nil || len(got) != len(after) {
			t.Fatalf("%q has %q: %v", changed, got, err)
		}
		for i, d := range got {
			same := sameDocument(d, after[i].Raw)
			if d.Key != after[i].Key || !same && !bytes.Equal(after[i].Value, value) {
				t.Fatalf("document %d of %q is %q, not %q", i, changed, d, after[i].Raw)
			}
		}
	})
}
