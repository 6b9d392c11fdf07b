package analytics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"colonnade/analytics"
	"colonnade/internal/docpage"
)

// field is a row of the table of fields.
type field struct {
	name, kind, on, since, about string
	always                       bool // no event lacks it
}

// fields returns the fields of events, from the Go type and its comments.
func fields(t *testing.T) (all []field) {
	t.Helper()
	about := fieldComments(t)
	for f := range reflect.TypeFor[analytics.Event]().Fields() {
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		since := f.Tag.Get("since")
		if since == "" {
			since = "1"
		}
		if n, err := strconv.Atoi(since); err != nil || n < 1 || n > analytics.SchemaVersion {
			t.Errorf("%s: since %q is no version up to %d", name, since, analytics.SchemaVersion)
		}
		if about[f.Name] == "" {
			t.Errorf("%s has no comment", f.Name)
		}
		all = append(all, field{name: name, kind: jsonType(t, f.Type), on: f.Tag.Get("on"), since: since, about: about[f.Name], always: rest != "omitempty"})
	}
	return all
}

func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Event" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			comments[f.Names[0].Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
		return false
	})
	return comments
}

// jsonType returns the type of a field in JSON.
func jsonType(t *testing.T, kind reflect.Type) string {
	switch {
	case kind == reflect.TypeFor[time.Time]():
		return "time"
	case kind == reflect.TypeFor[analytics.Milliseconds](), kind.Kind() == reflect.Float64:
		return "number"
	case kind.Kind() == reflect.String:
		return "text"
	case kind.Kind() == reflect.Bool:
		return "true"
	case kind.Kind() == reflect.Int, kind.Kind() == reflect.Int64:
		return "integer"
	case kind == reflect.TypeFor[[]string]():
		return "list of texts"
	}
	t.Fatalf("no JSON type of a %s", kind)
	return ""
}

// where returns which events have a field.
func (f field) where() string {
	words := strings.Fields(f.on)
	kinds := slices.DeleteFunc(slices.Clone(words), func(s string) bool { return s == string(analytics.PhaseEnd) })
	switch {
	case f.always:
		return "always"
	case len(words) == 0:
		return "all"
	case len(kinds) == 0:
		return "all, `end`"
	case len(kinds) == len(words):
		return "`" + strings.Join(kinds, "`, `") + "`"
	}
	return "`" + strings.Join(kinds, "`, `") + "`, `end`"
}

func TestFieldsOnThePage(t *testing.T) {
	var rows [][]string
	for _, f := range fields(t) {
		rows = append(rows, []string{"`" + f.name + "`", f.kind, f.where(), f.about})
	}
	docpage.Check(t, "docs/events.md", map[string]string{
		"schema version": fmt.Sprintf("This is **version %d** of the schema.", analytics.SchemaVersion),
		"fields":         docpage.Table([]string{"field", "type", "events", "meaning"}, rows),
	})
}

// Programs of operators read events: a field of a published version is neither renamed nor retyped nor taken out.
func TestSchemaOnlyGrows(t *testing.T) {
	var now bytes.Buffer
	for _, f := range fields(t) {
		fmt.Fprintf(&now, "%s\t%s\t%s\n", f.since, f.name, f.kind)
	}
	path := filepath.Join("testdata", "schema.tsv")
	published, err := os.ReadFile(path)
	if err != nil && !docpage.Updating() {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(published)) {
		if !strings.Contains("\n"+now.String(), "\n"+line) {
			t.Errorf("the schema has lost, renamed or retyped a field of %s: %q", path, line)
		}
	}
	if t.Failed() || bytes.Equal(published, now.Bytes()) {
		return
	}
	if !docpage.Updating() {
		t.Fatalf("the schema has new fields; raise SchemaVersion once for each release, tag them with it (since), and write %s anew with: go test ./analytics -update", path)
	}
	if err := os.WriteFile(path, now.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The sample lines on the page are events: one of each kind, with known fields alone, in the order of the nodes.
func TestSampleLines(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docpage.Root(t), "docs", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[analytics.Kind]bool{}
	for _, sample := range regexp.MustCompile("(?s)```json\n(.*?)\n```").FindAllSubmatch(page, -1) {
		var line bytes.Buffer
		if err := json.Compact(&line, sample[1]); err != nil {
			t.Fatalf("%v: %s", err, sample[1])
		}
		var e analytics.Event
		d := json.NewDecoder(bytes.NewReader(line.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			t.Errorf("%v: %s", err, &line)
		}
		if again, err := json.Marshal(e); err != nil || !bytes.Equal(again, line.Bytes()) {
			t.Errorf("the sample is\n%s\nand a node writes\n%s", &line, again)
		}
		kinds[e.Kind] = true
	}
	for _, kind := range []analytics.Kind{analytics.KindRequest, analytics.KindInference, analytics.KindForward, analytics.KindEngine} {
		if !kinds[kind] {
			t.Errorf("the page has no sample of kind %s", kind)
		}
	}
}
