package files_test

import (
	"fmt"
	"strings"
	"testing"

	"colonnade/fleet/document"
)

// Each load logs which documents it has created, changed and deleted, with file and line, in at most three lines; it warns when none of a kind
// is left. The first load, documents that moved, and those of the process itself are not logged.
func TestChangesOfFilesAreLogged(t *testing.T) {
	const pools = "---\nkey: pools/p\n"
	dir := start(t, "a.yaml", model("m", 1)+"---\n"+model("n", 1)+pools)
	w, log := newWatcher(dir.path, 0)
	load := func(content string, want ...string) {
		t.Helper()
		before := len(log.lines("documents "))
		dir.write("a.yaml", content)
		if err := w.Load(); err != nil {
			t.Fatal(err)
		}
		got := log.lines("documents ")[before:]
		if len(got) != len(want) {
			t.Fatalf("logged %q, want %q", got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], strings.ReplaceAll(want[i], "FILE", dir.file("a.yaml"))) {
				t.Errorf("logged %q, want %q", got[i], want[i])
			}
		}
	}
	load(model("m", 1) + "---\n" + model("n", 1) + pools)
	w.SetOwn("test", []document.Raw{rawModel("own", 1)})
	load(model("m", 1)+"---\n"+model("n", 2)+pools, `"INFO","msg":"documents changed","documents":1,"kind":"models","keys":"models/n (FILE:5)"`)
	load("# moved\n---\n"+model("n", 2)+pools, `"INFO","msg":"documents deleted","documents":1,"kind":"models","keys":"models/m (FILE:1)"`)
	load(model("o", 1)+"---\n"+model("n", 2), `"WARN","msg":"documents deleted","documents":1,"kind":"pools","keys":"pools/p (FILE:7)","none_left":"pools"`, `"INFO","msg":"documents created","documents":1,"kind":"models","keys":"models/o (FILE:1)"`)
	many := model("n", 2)
	for i := range 1000 {
		many += fmt.Sprintf("---\nkey: pools/p%d\n", i)
	}
	load(many, `"documents deleted","documents":1,"kind":"models","keys":"models/o (FILE:1)"`, `"documents created","documents":1000,"kind":"pools","keys":"pools/p0 (FILE:5), `)
	if line := log.lines("documents created"); !strings.Contains(line[len(line)-1], `"more":992`) {
		t.Errorf("logged %s", line)
	}
}
