package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"colonnade/fleet/document"
)

// keysAt returns the keys of the documents of a path, sorted.
func keysAt(t *testing.T, path string) string {
	t.Helper()
	docs, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, d := range docs {
		keys = append(keys, d.Key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " ")
}

// namesIn returns the names in a directory, also those that begin with a dot.
func namesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func modeOf(t *testing.T, file string) os.FileMode {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func apiKey(i int) document.Raw {
	return raw(fmt.Sprintf("keys/k%03d", i), fmt.Sprintf(`{"account": "a", "sha256": "%064x"}`, i))
}

// A new document stands beside others of its kind, or else in a file of the kind.
func TestPlaceOfNewDocuments(t *testing.T) {
	t.Parallel()
	f := func(files map[string]string, key, want string) {
		t.Helper()
		dir := t.TempDir()
		for name, text := range files {
			writeFile(t, dir, name, text)
		}
		value := "{}"
		if strings.HasPrefix(key, "keys/") {
			value = string(apiKey(1).Value)
		}
		at, err := Create(t.Context(), dir, raw(key, value))
		if err != nil || at.File != filepath.Join(dir, want) || at.Key != key {
			t.Errorf("%v: %s goes to %s:%d, %v", files, key, at.File, at.Line, err)
		}
		if mode := modeOf(t, at.File); mode != 0o600 {
			t.Errorf("%s has the mode %v", at.File, mode)
		}
		docs, err := Read(dir)
		if !slices.ContainsFunc(docs, func(d Located) bool { return d.Key == key && d.File == at.File && d.Line == at.Line }) {
			t.Errorf("it is not there: %v, %v", docs, err)
		}
	}
	f(nil, "pools/x", "pools.yaml")
	f(nil, "keys/x", "keys.yaml")
	f(nil, "defaults", "defaults.yaml")
	one := map[string]string{"all.yml": "key: pools/a\n---\nkey: models/b\npool: a\n", "other.yaml": "key: models/c\n"}
	f(one, "pools/x", "all.yml")
	f(one, "models/x", "models.yaml") // two files have models
	f(one, "accounts/x", "accounts.yaml")
	f(map[string]string{"pools.yaml": "# none yet\n"}, "pools/x", "pools.yaml")
	f(map[string]string{"p.json": `{"key": "pools/a"}`}, "pools/x", "pools.yaml")
	f(map[string]string{"all.yaml": "key: pools/a\n---\nkey: keys/k\n" + string(`account: a`) + "\nsha256: \"" + strings.Repeat("ab", 32) + "\"\n"}, "keys/x", "all.yaml")
	f(map[string]string{".hidden.yaml": "key: pools/a\n", "pools.txt": "key: pools/b\n"}, "pools/x", "pools.yaml")
}

func TestApplyReportsEachDocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "a.yaml", "# why\n\nkey: pools/a\nqueue: {limit: 1}\n---\nkey: pools/b\n")
	applied, err := apply(t, dir, []document.Raw{raw("pools/b", "queue: {limit: 2}"), raw("models/m", "pool: a"), raw("pools/a", "# why\n\nqueue: {limit: 1}")})
	var got []string
	for _, a := range applied {
		got = append(got, fmt.Sprintf("%s %s:%d %v %v", a.Key, filepath.Base(a.File), a.Line, a.Created, a.Unchanged))
	}
	if want := "pools/b a.yaml:6 false false, models/m models.yaml:1 true false, pools/a a.yaml:3 false true"; err != nil || strings.Join(got, ", ") != want {
		t.Errorf("%v\n got %s\nwant %s", err, strings.Join(got, ", "), want)
	}
	if _, err := Create(t.Context(), dir, raw("pools/a", "{}")); !errors.Is(err, ErrExists) {
		t.Errorf("an existing document: %v", err)
	}
	deleted, err := Delete(t.Context(), dir, []string{"models/m", "pools/a", "pools/z"})
	if err != nil || len(deleted) != 2 || deleted[0].Key != "pools/a" || deleted[0].Line != 3 || keysAt(t, dir) != "pools/b" {
		t.Errorf("deleted %v, %v; left are %s", deleted, err, keysAt(t, dir))
	}
}

// A change that a watcher would refuse is not written, whether it is at fault or was refused before.
func TestEditChecksAll(t *testing.T) {
	t.Parallel()
	f := func(files map[string]string, doc document.Raw, want ...string) {
		t.Helper()
		dir := t.TempDir()
		for name, text := range files {
			writeFile(t, dir, name, text)
		}
		_, err := apply(t, dir, []document.Raw{doc})
		for _, w := range append(want, "nothing was changed") {
			if w = strings.ReplaceAll(w, "DIR", dir); err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v\nlacks %q", err, w)
			}
		}
		for name, text := range files {
			if got := readFile(t, filepath.Join(dir, name)); got != text {
				t.Errorf("%s is now\n%s", name, got)
			}
		}
		if got := strings.Fields(namesIn(t, dir)); len(got) != len(files) {
			t.Errorf("there are %v", got)
		}
	}
	good := map[string]string{"a.yaml": "key: pools/a\n"}
	f(good, raw("pools/a", "queue: {limit: -3}"), "DIR/a.yaml:", "pools/a: queue.limit")
	f(good, raw("pools/b", "odd: 1"), "DIR/a.yaml:", "pools/b: odd: unknown field")
	f(map[string]string{"a.yaml": "# x\n---\nkey: pools/a\nodd: 1\n", "b.yaml": "x: [\n"}, raw("models/b", "{}"), "DIR/a.yaml:", "pools/a: odd: unknown field", "DIR/b.yaml:")
	f(map[string]string{"a.yaml": "key: pools/a\n", "b.yaml": "key: pools/a\n"}, raw("pools/a", "queue: {limit: 2}"), "pools/a", "DIR/b.yaml:1", "DIR/a.yaml:1")
	f(map[string]string{"a.yaml": "key: pools/a\n---\n#" + strings.Repeat("x", document.MaxFile-20) + "\n"}, raw("pools/b", "{}"), "DIR/a.yaml", "16777216")

	// A bad document can be replaced or removed.
	dir := t.TempDir()
	path := writeFile(t, dir, "a.yaml", "key: pools/a\nodd: 1\n---\nkey: plans/x\n---\nkey: pools/b\n")
	if _, err := Delete(t.Context(), dir, []string{"plans/x", "pools/a"}); err != nil || readFile(t, path) != "---\nkey: pools/b\n" {
		t.Errorf("%v, %q", err, readFile(t, path))
	}
}

// Keys go into no file that others may read, and the error says what to do before anything is written.
func TestEditWritesKeysIntoPrivateFilesOnly(t *testing.T) {
	t.Parallel()
	path := writeFile(t, t.TempDir(), "all.yaml", "key: pools/a\n")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Create(t.Context(), path, apiKey(1))
	if err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) || readFile(t, path) != "key: pools/a\n" {
		t.Errorf("%v; the file is %s", err, readFile(t, path))
	}
	if _, err := Create(t.Context(), path, raw("pools/b", "{}")); err != nil || modeOf(t, path) != 0o644 {
		t.Errorf("another document: %v, %v", err, modeOf(t, path))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if at, err := Create(t.Context(), path, apiKey(1)); err != nil || at.File != path || modeOf(t, path) != 0o600 {
		t.Errorf("%v, %v, %v", at, err, modeOf(t, path))
	}
}

// Writers of a directory and of a file in it lose no change of each other.
func TestEditsExcludeEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := writeFile(t, dir, "keys.yaml", "# ours\n")
	other := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, other); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w, at := range []string{dir, path, other, filepath.Join(other, "keys.yaml")} {
		writers.Go(func() {
			for i := range 8 {
				if _, err := Create(t.Context(), at, apiKey(10*w+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if got := strings.Count(keysAt(t, dir), "keys/"); got != 32 {
		t.Errorf("%d of 32 keys are there", got)
	}
	if got := namesIn(t, dir); got != "keys.yaml" || !strings.HasPrefix(readFile(t, path), "# ours\n") {
		t.Errorf("there are %s", got)
	}
}

// An Edit waits for another one, for as long as its context allows.
func TestEditWaitsForTheLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Create(ctx, dir, raw("pools/a", "{}")); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "another program is changing files") {
		t.Errorf("got %v", err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := Create(t.Context(), dir, raw("pools/a", "{}"))
		ended <- err
	}()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || keysAt(t, dir) != "pools/a" {
		t.Errorf("%v: %s", err, keysAt(t, dir))
	}
}

// Two paths may lead to one directory, as with a bind mount.
func TestLockOfADirectoryWithTwoNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 2 {
		unlock, err := lock(ctx, []string{dir, dir + "/."})
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	}
}

// An editor takes no lock: what it writes after the files were read is read again.
func TestEditNoticesAnEditor(t *testing.T) {
	t.Parallel()
	f := func(name string, meanwhile func(dir string), want string) {
		t.Helper()
		dir := t.TempDir()
		writeFile(t, dir, "a.yaml", "key: pools/a\n")
		writeFile(t, dir, "b.yaml", "key: models/b\n")
		calls := 0
		_, err := Edit(t.Context(), dir, func(docs []Located) ([]Located, error) {
			if calls++; calls == 1 {
				meanwhile(dir)
			}
			return append(docs, Located{Raw: raw("pools/new", "{}")}), nil
		})
		if err != nil || calls != 2 || keysAt(t, dir) != want {
			t.Errorf("%s: %v after %d calls: %s", name, err, calls, keysAt(t, dir))
		}
		if names := namesIn(t, dir); strings.Contains(names, "tmp") {
			t.Errorf("%s: left are %s", name, names)
		}
	}
	f("same file", func(dir string) { writeFile(t, dir, "a.yaml", "key: pools/edited\n") }, "models/b pools/edited pools/new")
	f("other file", func(dir string) { writeFile(t, dir, "b.yaml", "key: models/edited\n") }, "models/edited pools/a pools/new")
	f("new file", func(dir string) { writeFile(t, dir, "c.yaml", "key: colos/c\n") }, "colos/c models/b pools/a pools/new")
	f("no file", func(dir string) { _ = os.Remove(filepath.Join(dir, "b.yaml")) }, "pools/a pools/new")
	f("renamed", func(dir string) {
		_ = os.Rename(writeFile(t, dir, "a.tmp", "key: pools/renamed\n"), filepath.Join(dir, "a.yaml"))
		_ = os.Remove(filepath.Join(dir, "a.tmp"))
	}, "models/b pools/new pools/renamed")

	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err := Edit(ctx, dir, func(docs []Located) ([]Located, error) {
		if calls++; calls == 3 {
			cancel()
		}
		writeFile(t, dir, "a.yaml", fmt.Sprintf("key: pools/a%d\n", calls))
		return append(docs, Located{Raw: raw("models/new", "{}")}), nil
	})
	if !errors.Is(err, context.Canceled) || keysAt(t, dir) != "pools/a3" || namesIn(t, dir) != "a.yaml" {
		t.Errorf("%v: %s in %s", err, keysAt(t, dir), namesIn(t, dir))
	}
}

// Symbolic links stay, and lead to the new content.
func TestEditFollowsLinks(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	target := writeFile(t, elsewhere, "real", "key: pools/a\n")
	if err := os.Chmod(target, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "pools.yaml")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for i, path := range []string{dir, link} {
		if _, err := Create(t.Context(), path, raw(fmt.Sprintf("pools/b%d", i), "{}")); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 || !strings.Contains(readFile(t, target), "pools/b1") || modeOf(t, target) != 0o640 {
		t.Errorf("%v, %v; the target is %s", info, err, readFile(t, target))
	}
	if names := namesIn(t, dir) + " " + namesIn(t, elsewhere); names != "pools.yaml real" {
		t.Errorf("there are %s", names)
	}
	if _, err := Create(t.Context(), filepath.Join(dir, "nowhere"), raw("pools/a", "{}")); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a path that is not there: %v", err)
	}
}

// A file that does not change is not replaced.
func TestEditTouchesOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := writeFile(t, dir, "a.yaml", "key: pools/a\n"), writeFile(t, dir, "b.yaml", "key: models/b\n")
	before := map[string]os.FileInfo{}
	for _, file := range []string{a, b} {
		before[file], _ = os.Stat(file)
	}
	if _, err := apply(t, dir, []document.Raw{raw("pools/a", "{}"), raw("models/b", "pool: a")}); err != nil {
		t.Fatal(err)
	}
	for file, was := range before {
		is, err := os.Stat(file)
		if err != nil || os.SameFile(was, is) != (file == a) {
			t.Errorf("%s is another file, or the same: %v", file, err)
		}
	}
}

// apply puts documents into the files of a path.
func apply(t *testing.T, path string, docs []document.Raw) ([]Applied, error) {
	done, err := Change(t.Context(), path, func([]Located) (Changes, error) { return Changes{Put: docs}, nil })
	return done.Applied, err
}
