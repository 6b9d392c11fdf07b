package files_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

// An accident leaves the documents in force, whatever it is; the log has one line, however often the watcher looks.
func TestAccidents(t *testing.T) {
	f := func(name string, damage func(folder), texts ...string) {
		t.Run(name, func(t *testing.T) {
			dir := start(t, "a.yaml", model("m", 1), "b.yaml", model("n", 1))
			w, log := follow(t, dir.path, 5*time.Millisecond)
			damage(dir)
			rejects(t, w, 1, texts...)
			if version(w.Table(), "n") != 1 {
				t.Error("n is not in force")
			}
			looks(t, w, 5)
			if got := log.lines("documents rejected"); len(got) != 1 || !strings.Contains(got[0], texts[0]) || !strings.Contains(got[0], `"last_good_in_force":true`) {
				t.Errorf("log: %q", got)
			}
			dir.remove("b.yaml")
			dir.replace("a.yaml", model("m", 2))
			becomes(t, w, "m", 2)
			testkit.WaitFor(t, "a line about the end", func() bool { return len(log.lines("documents in force")) > 0 })
			if state := w.State(); len(state.Rejected) != 0 {
				t.Errorf("state %+v", state)
			}
		})
	}
	t.Parallel()
	b := func(content string) func(folder) {
		return func(dir folder) { dir.replace("b.yaml", content) }
	}
	change := model("m", 9) + "---\n" // it must not come into force either
	f("field", b(change+"key: models/n\nretry:\n  errors: x\n"), "b.yaml:7", "retry.errors", "must be a whole number")
	f("unknown field", b("# c\nkey: models/n\n\nretrys: {}\n"), "b.yaml:4", "models/n", "unknown field")
	f("half written", b(change+"key: models/n\nretry: {err"), "b.yaml", "not valid YAML")
	f("truncated", b(""), "b.yaml", "is empty")
	f("no key", b(change+"\n# c\nretry: {}\n"), "b.yaml:7", "needs its key")
	f("key of another file", b(change), "b.yaml:1", "models/m", "a.yaml:1", "remove one")
	f("of a node", b(change+"key: servers/ams/x\naddress: h:1\n"), "b.yaml", "servers/ams/x", "remove this document")
	f("deletions", b("key: deletions\nconfirmed: 7\n"), "b.yaml:1", "remove this document")
	f("too large", b(model("n", 2)+strings.Repeat("#\n", document.MaxFile/2)), "b.yaml", "16777216", "split it")
	f("named pipe", func(dir folder) {
		dir.remove("b.yaml")
		dir.pipe("b.yaml")
	}, "b.yaml", "a named pipe")
	f("link to nothing", func(dir folder) {
		dir.remove("b.yaml")
		dir.link("nowhere", "b.yaml")
	}, "b.yaml", "no such file")
	f("open API keys", func(dir folder) {
		dir.write(".b.yaml", change+"key: keys/k\naccount: a\nsha256: '"+strings.Repeat("a", 64)+"'\n")
		dir.mode(".b.yaml", 0o604)
		dir.rename(".b.yaml", "b.yaml")
	}, "b.yaml", "0604", "chmod 600 "+"/")
}

// A half-written file that continues comes into force when it is whole.
func TestHalfWrittenFile(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1))
	w, _ := follow(t, dir.path, 0)
	whole := model("m", 2) + "---\n" + model("n", 2)
	dir.write("a.yaml", whole[:len(whole)-9])
	rejects(t, w, 1, "a.yaml")
	file, err := os.OpenFile(dir.file("a.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	dir.check(err)
	defer file.Close()
	_, err = file.WriteString(whole[len(whole)-9:])
	dir.check(err)
	becomes(t, w, "m", 2)
	becomes(t, w, "n", 2)
}

// A file of comments alone has no documents, on purpose; so the last document can be removed.
func TestNoDocumentsOnPurpose(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1))
	w, _ := follow(t, dir.path, 0)
	dir.write("a.yaml", "# no documents\n")
	becomes(t, w, "m", -1)
	if state := w.State(); len(state.Rejected) != 0 {
		t.Errorf("state %+v", state)
	}
}
