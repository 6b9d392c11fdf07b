// Package docpage keeps the generated parts of pages in line with the code that they describe. A part stands on its page between
// the lines "<!-- NAME -->" and "<!-- end -->". It is for tests, and gives those that import it the flag -update.
package docpage

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of pages")

var part = regexp.MustCompile(`(?s)<!-- ([a-z: -]+) -->\n(.*?)<!-- end -->`)

// Check compares the generated parts of a page with parts, which has the text of each by its name. The test fails if the page is
// stale, or has other parts; with -update, the page is written instead.
func Check(t *testing.T, page string, parts map[string]string) {
	t.Helper()
	path := filepath.Join(Root(t), page)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(parts)
	fresh := part.ReplaceAllFunc(old, func(found []byte) []byte {
		name := string(part.FindSubmatch(found)[1])
		text, ok := parts[name]
		if !ok {
			t.Errorf("%s has a part %q that is not generated", page, name)
			return found
		}
		delete(left, name)
		return []byte("<!-- " + name + " -->\n\n" + strings.TrimRight(text, "\n") + "\n\n<!-- end -->")
	})
	if len(left) > 0 {
		t.Errorf("%s lacks the parts %q", page, slices.Sorted(maps.Keys(left)))
	}
	if t.Failed() || bytes.Equal(old, fresh) {
		return
	}
	if !*update {
		t.Fatalf("%s is stale; write it anew with: go test -run '^%s$' -update, in the directory of this test", page, t.Name())
	}
	if err := os.WriteFile(path, fresh, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Updating reports whether the test was started with -update.
func Updating() bool { return *update }

// Root returns the root of the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "go.mod")) {
		above := filepath.Dir(dir)
		if above == dir {
			t.Fatal("the test does not run inside the repository")
		}
		dir = above
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Table returns a Markdown table. Vertical bars in cells are escaped.
func Table(titles []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		for _, cell := range cells {
			b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
	}
	line(titles)
	b.WriteString(strings.Repeat("| --- ", len(titles)) + "|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}
