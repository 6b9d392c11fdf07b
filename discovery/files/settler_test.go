package files

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Changes are one change until nothing has changed for the settle time, or for as long as a change may take at most.
func TestSettler(t *testing.T) {
	f := func(want time.Duration, changes ...time.Duration) {
		t.Helper()
		began := time.Now()
		var s settler
		for _, after := range changes {
			s.change(began.Add(after))
		}
		if got := s.due().Sub(began); !s.pending() || got != want {
			t.Errorf("changes after %v: due after %v, want %v", changes, got, want)
		}
	}
	const ms = time.Millisecond
	f(100*ms, 0)
	f(190*ms, 0, 90*ms)
	f(480*ms, 0, 90*ms, 180*ms, 270*ms, 360*ms, 380*ms)
	f(500*ms, 0, 90*ms, 180*ms, 270*ms, 360*ms, 450*ms)
	f(500*ms, 0, 450*ms, 900*ms)
	if s := new(settler); s.pending() {
		t.Error("a change is pending at the beginning")
	}
}

func TestIsPrivate(t *testing.T) {
	f := func(mode fs.FileMode, own, ofRoot bool) {
		t.Helper()
		if isPrivate(mode, false) != own || isPrivate(mode, true) != ofRoot {
			t.Errorf("mode %o: %v for a user, %v for root", mode, !own, !ofRoot)
		}
	}
	f(0o600, true, true)
	f(0o400, true, true)
	f(0o700, true, true)
	f(0o640, false, true)
	f(0o440, false, true)
	f(0o660, false, false)
	f(0o620, false, false)
	f(0o644, false, false)
	f(0o604, false, false)
	f(0o602, false, false)
	f(0o444, false, false)
}

// Of files with documents, editors' and Kubernetes' files, only the first are read.
func TestIsDocumentName(t *testing.T) {
	for name, want := range map[string]bool{
		"a.yaml": true, "a.yml": true, "a.json": true, "A.YAML": true, "a.b.yaml": true,
		".a.yaml": false, ".#a.yaml": false, "#a.yaml#": false, "a.yaml~": false, ".a.yaml.swp": false, "a.yaml.tmp": false, "a": false, "..data": false,
		"yaml": false, ".yaml": false, "README.md": false, "": false,
	} {
		if isDocumentName(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// Files that were read count only if the listing before still holds after it.
func TestListingHoldsNoMore(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "key: models/m\n")
	f := func(what string, want bool, change func()) {
		t.Helper()
		l := list(dir)
		change()
		c, ok := l.readContents(dir)
		if ok != want || ok && (len(c.docs) != 1 || len(c.problems) > 0) {
			t.Errorf("%s: %v, %+v", what, ok, c)
		}
	}
	f("nothing", true, func() {})
	f("a file of another kind", true, func() { write("a.txt", "") })
	f("another file", false, func() { write("b.yaml", "key: models/n\n") })
	f("a longer file", false, func() { write("a.yaml", "key: models/mm\n") })
	f("a removed file", false, func() { _ = os.Remove(filepath.Join(dir, "b.yaml")) })
	f("a mode", false, func() { _ = os.Chmod(filepath.Join(dir, "a.yaml"), 0o400) })
	f("no directory", false, func() { _ = os.RemoveAll(dir) })
}
