package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namedPage is a page of docs that a comment, an error or a sample names, perhaps with one of its headings.
var namedPage = regexp.MustCompile(`(?:^|[\s"'(])(docs/[a-z/-]+\.md)(?:#([a-z0-9-]+))?`)

// Pages and headings that Go code, samples and rules name exist: operators follow them from an error or an alert.
func TestPagesNamedInSources(t *testing.T) {
	t.Parallel()
	found := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name := entry.Name(); name == "node_modules" || name == "bin" || name == "var" || strings.HasPrefix(name, ".") && name != ".." {
				return fs.SkipDir
			}
			return nil
		case !slices.Contains([]string{".go", ".yaml", ".json", ".service"}, filepath.Ext(path)) || strings.HasPrefix(entry.Name(), "overload"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range namedPage.FindAllStringSubmatch(string(text), -1) {
			if m[1] == "docs/api.md" { // of another repository
				continue
			}
			found++
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: there is no %s", path, m[1])
			} else if m[2] != "" && !slices.Contains(anchors(t, m[1]), m[2]) {
				t.Errorf("%s: %s has no heading #%s", path, m[1], m[2])
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d pages are named: %v", found, err)
	}
}
