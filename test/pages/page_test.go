// Package pages runs the commands of the pages that people read, and checks what the pages say of commands, flags, metrics and
// files.
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

const root = "../.."

// block is a fenced block of a page.
type block struct{ section, language, text string }

var fences = regexp.MustCompile("(?ms)^## ([^\n]*)$|^```([a-z]*)\n(.*?)^```$")

// blocks returns the fenced blocks of a page, each with the heading (##) that it stands below.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	var all []block
	section := ""
	for _, m := range fences.FindAllStringSubmatch(read(t, page), -1) {
		if m[1] != "" {
			section = m[1]
			continue
		}
		all = append(all, block{section, m[2], m[3]})
	}
	return all
}

func read(t *testing.T, page string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// pages returns all pages of the repository, as paths relative to it.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "node_modules" || name == "testdata" || strings.HasPrefix(name, ".") && name != ".."):
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			relative, err := filepath.Rel(root, path)
			found = append(found, filepath.ToSlash(relative))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}
