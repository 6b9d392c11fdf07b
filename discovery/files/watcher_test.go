package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"colonnade/discovery/files"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

// A watcher has an empty table before it has loaded, and is ready from the first good load.
func TestReadyAfterGoodLoad(t *testing.T) {
	dir := start(t, "a.yaml", "key: models/m\nretry: {errors: x}\n")
	w, _ := newWatcher(dir.path, 0)
	isReady := func() bool {
		select {
		case <-w.Ready():
			return true
		default:
			return false
		}
	}
	if w.Table() == nil || len(w.Table().Models()) != 0 || isReady() {
		t.Errorf("table %+v before the first load", w.Table())
	}
	if err := w.Load(); err == nil || isReady() {
		t.Errorf("a bad document: %v, ready is %v", err, isReady())
	}
	dir.write("a.yaml", model("m", 1))
	changed := w.Changed()
	if err := w.Load(); err != nil || !isReady() {
		t.Fatalf("ready is %v: %v", isReady(), err)
	}
	select {
	case <-changed:
	default:
		t.Error("Changed is not closed")
	}
	state := w.State()
	if version(w.Table(), "m") != 1 || w.Table().Revision != 1 || state.Revision != 1 || len(state.Rejected) != 0 || state.Age > testkit.Timeout {
		t.Errorf("state %+v, table %+v", state, w.Table())
	}
	// Without a change there is no new table.
	tables, table := state.Tables, w.Table()
	if err := w.Load(); err != nil || w.Table() != table || w.State().Tables != tables {
		t.Errorf("%v: state %+v", err, w.State())
	}
	if !w.Watches("models/m") {
		t.Error("models are not watched")
	}
	w.MarkDead("models/m")
	if version(w.Table(), "m") != 1 {
		t.Error("a document went out of force")
	}
}

// Without a path there are only the documents of the process.
func TestNoPath(t *testing.T) {
	t.Parallel()
	w, _ := newWatcher("", 0)
	w.SetOwn("test", []document.Raw{rawModel("m", 1)})
	if version(w.Table(), "m") != -1 {
		t.Error("a document is in force before the first load")
	}
	if err := w.Load(); err != nil || version(w.Table(), "m") != 1 || w.State().Age != 0 {
		t.Errorf("%v: state %+v", err, w.State())
	}
	<-w.Ready()
	run(t, w)
	w.Reload()
}

// Each change of a file is in force within a second: written in place, renamed into place, added, removed.
func TestChangeComesIntoForce(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1)+"---\n"+model("n", 1))
	w, log := follow(t, dir.path, 0)
	within := func(what, name string, want int) {
		t.Helper()
		testkit.Within(t, time.Second, what, func() bool { return version(w.Table(), name) == want })
	}
	dir.write("a.yaml", model("m", 2)+"---\n"+model("n", 1))
	within("written in place", "m", 2)
	dir.replace("a.yaml", model("m", 3))
	within("renamed into place", "m", 3)
	within("not in the file any more", "n", -1)
	dir.rename("a.yaml", "a.yaml~") // as editors that keep the last version
	dir.write("a.yaml", model("m", 4))
	within("the old file renamed away", "m", 4)
	dir.write("b.json", `{"key": "models/n", "retry": {"errors": 5}}`)
	within("added", "n", 5)
	dir.remove("b.json")
	within("removed", "n", -1)
	if got := log.lines("documents in force"); len(got) < 5 { // the last one may be yet to come
		t.Errorf("log: %q", got)
	}
}

// A path may be that of one file, of whatever name, and the file may be replaced.
func TestOneFile(t *testing.T) {
	dir := start(t, "colonnade.conf", model("m", 1), "other.yaml", model("other", 1))
	w, _ := follow(t, dir.file("colonnade.conf"), 0)
	dir.write("colonnade.conf", model("m", 2))
	becomes(t, w, "m", 2)
	dir.replace("colonnade.conf", model("m", 3))
	becomes(t, w, "m", 3)
	dir.remove("colonnade.conf")
	rejects(t, w, 3, dir.file("colonnade.conf"), "no such file")
	dir.write("colonnade.conf", model("m", 4))
	becomes(t, w, "m", 4)
	if version(w.Table(), "other") != -1 || len(w.State().Rejected) != 0 {
		t.Errorf("table %+v", w.Table())
	}
}

// watchTables calls f with each table in force, until stop is called.
func watchTables(w *files.Watcher, f func(*fleet.Table)) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			changed := w.Changed()
			f(w.Table())
			select {
			case <-changed:
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// Files that change one after the other come into force as one table.
func TestFilesChangeAsOne(t *testing.T) {
	const all = 12
	dir := start(t)
	name := func(i int) string { return fmt.Sprintf("m%02d", i) }
	write := func(v int) (longest time.Duration) {
		began := time.Now()
		last := began
		for i := range all {
			dir.write(name(i)+".yaml", model(name(i), v))
			time.Sleep(10 * time.Millisecond) // so that the watcher looks at some of them
			longest = max(longest, time.Since(last))
			last = time.Now()
		}
		return max(longest, time.Since(began)*time.Duration(files.SettleTime)/time.Duration(files.MaxSettleTime))
	}
	write(1)
	w, _ := follow(t, dir.path, 0)
	for v := 2; ; v++ {
		var mixed *fleet.Table
		stop := watchTables(w, func(table *fleet.Table) {
			for i := range all {
				if version(table, name(i)) != version(table, name(0)) {
					mixed = table
				}
			}
		})
		slow := write(v) >= files.SettleTime/2
		becomes(t, w, name(all-1), v)
		becomes(t, w, name(0), v)
		stop()
		if !slow && mixed != nil {
			t.Errorf("a table has %v", mixed.Models())
		}
		if !slow || v == 20 {
			return // with a machine that is too slow, there may be several changes
		}
	}
}

// configMap makes a directory as Kubernetes mounts it: files are links into ..data, which is a link to the newest version.
func (f folder) configMap(version int, names ...string) {
	f.t.Helper()
	data := fmt.Sprintf("..version_%d", version)
	f.check(os.Mkdir(f.file(data), 0o755))
	for _, name := range names {
		f.write(filepath.Join(data, name+".yaml"), model(name, version%17)) // 16 is the most that is accepted
		if version == 1 {
			f.link(filepath.Join("..data", name+".yaml"), name+".yaml")
		}
	}
	f.link(data, "..data_tmp")
	f.rename("..data_tmp", "..data")
	if version > 1 {
		f.remove(fmt.Sprintf("..version_%d", version-1))
	}
}

// The replacement of a ConfigMap's link changes all files at once.
func TestConfigMap(t *testing.T) {
	dir := start(t)
	dir.configMap(1, "a", "b")
	w, log := follow(t, dir.path, 0)
	dir.configMap(2, "a", "b")
	becomes(t, w, "a", 2)
	if version(w.Table(), "b") != 2 {
		t.Error("b is not of the same version")
	}
	one, _ := follow(t, dir.file("a.yaml"), 0)
	dir.configMap(3, "a", "b")
	becomes(t, w, "b", 3)
	becomes(t, one, "a", 3)
	if got := log.lines("WARN"); len(got) != 0 {
		t.Errorf("log: %q", got)
	}
}

// No load has half of a change that the file system makes at once, whenever it reads.
func TestLoadReadsOneMoment(t *testing.T) {
	dir := start(t)
	dir.configMap(1, "a", "b")
	w, _ := newWatcher(dir.path, 0)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for v := 2; ; v++ {
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
				dir.configMap(v, "a", "b")
			}
		}
	}()
	check := func() {
		if a, b := version(w.Table(), "a"), version(w.Table(), "b"); a != b {
			t.Errorf("versions %d and %d in one table", a, b)
		}
	}
	for range 100 {
		_ = w.Load() // which finds no moment of rest, perhaps
		check()
	}
	close(end)
	<-ended
	dir.check(w.Load())
	check()
}

// A directory that is removed leaves its documents in force; it is followed again when it returns, or another one takes its name.
func TestDirectoryReturns(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1))
	w, log := follow(t, dir.path, 0)
	dir.check(os.RemoveAll(dir.path))
	rejects(t, w, 1, dir.path, "no such file")
	dir.make()
	rejects(t, w, 1, dir.path, "there are no documents", "*.yaml")
	dir.write("a.yaml", model("m", 2))
	becomes(t, w, "m", 2)
	dir.check(os.Rename(dir.path, dir.path+".old"))
	dir.make()
	dir.write("a.yaml", model("m", 3))
	becomes(t, w, "m", 3)
	dir.write("a.yaml", model("m", 4))
	becomes(t, w, "m", 4)
	if got := log.lines("documents rejected"); len(got) > 6 { // with a slow machine, also of a file that is about to be written
		t.Errorf("log: %q", got)
	}
}

// A change that no notification reports is found by looking, and one that no listing shows by a notification.
func TestWithoutNotification(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1))
	quiet, _ := newWatcher(dir.path, 5*time.Millisecond)
	quiet.OpenNotifierBy(noEvents)
	dir.check(quiet.Load())
	run(t, quiet)
	dir.write("a.yaml", model("m", 2))
	becomes(t, quiet, "m", 2)

	exact, _ := follow(t, dir.path, 0)
	dir.write("a.yaml", model("m", 5))
	becomes(t, exact, "m", 5) // it watches from here on
	info, err := os.Stat(dir.file("a.yaml"))
	dir.check(err)
	looks := exact.State().Tables
	dir.write("a.yaml", model("m", 3))
	dir.check(os.Chtimes(dir.file("a.yaml"), info.ModTime(), info.ModTime()))
	becomes(t, exact, "m", 3)
	if exact.State().Tables != looks+1 {
		t.Errorf("state %+v", exact.State())
	}
}

// A file that was changed shortly before it was read is read once more, in case that its times are not exact.
func TestCoarseTimes(t *testing.T) {
	dir := start(t)
	set := func(version int, at time.Time) {
		t.Helper()
		dir.write("a.yaml", model("m", version))
		dir.check(os.Chtimes(dir.file("a.yaml"), at, at))
	}
	w, _ := newWatcher(dir.path, 5*time.Millisecond)
	w.OpenNotifierBy(noEvents)
	var at time.Time
	for in := false; !in; in = time.Since(at) < 2*time.Second { // a slow machine may need another attempt
		at = time.Now().Add(-1500 * time.Millisecond)
		set(1, at)
		dir.check(w.Load())
		set(2, at)
	}
	run(t, w)
	becomes(t, w, "m", 2)
}

// A change is reported where symbolic links lead to.
func TestLinksToElsewhere(t *testing.T) {
	dir := start(t, "target.yaml", model("m", 1))
	links := folder{t, filepath.Join(filepath.Dir(dir.path), "links")}
	links.make()
	links.link(filepath.Join("..", "documents", "target.yaml"), "a.yaml")
	links.link(filepath.Join("..", "documents"), "all")
	w, _ := follow(t, links.path, 0)
	var interval time.Duration
	if runtime.GOOS != "linux" {
		interval = 100 * time.Millisecond // the directory around another one is watched on Linux only
	}
	all, _ := follow(t, links.file("all"), interval)
	for v := 2; v < 4; v++ {
		dir.write("target.yaml", model("m", v))
		becomes(t, w, "m", v)
		becomes(t, all, "m", v)
	}
	links.check(os.Mkdir(links.file("next"), 0o700))
	links.write(filepath.Join("next", "a.yaml"), model("m", 9))
	links.link("next", "all.new")
	links.rename("all.new", "all")
	becomes(t, all, "m", 9)
}

// Reload loads at once, and the log says so even if nothing has changed.
func TestReload(t *testing.T) {
	dir := start(t, "a.yaml", model("m", 1))
	w, log := follow(t, dir.path, 0)
	for n := 1; n < 3; n++ {
		w.Reload()
		testkit.WaitFor(t, "a line", func() bool { return len(log.lines("documents in force")) == n })
	}
	dir.replace("a.yaml", "retry")
	rejects(t, w, 1, "a.yaml")
	w.Reload()
	testkit.WaitFor(t, "a second line", func() bool { return len(log.lines("documents rejected")) == 2 })
	dir.replace("a.yaml", model("m", 1))
	testkit.WaitFor(t, "the same documents again", func() bool { return len(w.State().Rejected) == 0 })
}
