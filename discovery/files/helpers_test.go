package files_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"colonnade/discovery/files"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/internal/testkit"
)

func TestMain(m *testing.M) {
	// These tests mostly wait, so many more of them than there are processors may run at once.
	if err := flag.Set("test.parallel", "20"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// folder is a directory of a test.
type folder struct {
	t    *testing.T
	path string
}

// start returns a directory with these files, given as names and contents.
func start(t *testing.T, files ...string) folder {
	t.Helper()
	t.Parallel()
	dir := folder{t, filepath.Join(t.TempDir(), "documents")}
	dir.make()
	for i := 0; i < len(files); i += 2 {
		dir.write(files[i], files[i+1])
	}
	return dir
}

func (f folder) make() {
	f.t.Helper()
	f.check(os.Mkdir(f.path, 0o700))
}

func (f folder) file(name string) string { return filepath.Join(f.path, name) }

// write writes a file in place, as cp and many editors do.
func (f folder) write(name, content string) {
	f.t.Helper()
	f.check(os.WriteFile(f.file(name), []byte(content), 0o600))
}

// replace writes a file beside the old one and renames it, as other editors do.
func (f folder) replace(name, content string) {
	f.t.Helper()
	f.write("."+name+".swp", content)
	f.rename("."+name+".swp", name)
}

func (f folder) mode(name string, mode fs.FileMode) {
	f.t.Helper()
	f.check(os.Chmod(f.file(name), mode))
}

func (f folder) rename(from, to string) {
	f.t.Helper()
	f.check(os.Rename(f.file(from), f.file(to)))
}

func (f folder) link(target, name string) {
	f.t.Helper()
	f.check(os.Symlink(target, f.file(name)))
}

func (f folder) remove(name string) {
	f.t.Helper()
	f.check(os.RemoveAll(f.file(name)))
}

func (f folder) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// model is a document of a model whose retry.errors is version.
func model(name string, version int) string {
	return fmt.Sprintf("key: models/%s\nretry:\n  errors: %d\n", name, version)
}

func rawModel(name string, version int) document.Raw {
	return document.Raw{Key: "models/" + name, Value: fmt.Appendf(nil, "retry: {errors: %d}", version)}
}

// version returns the version of a model in a table; -1 if there is none.
func version(table *fleet.Table, name string) int {
	m, ok := table.Model(name)
	if !ok {
		return -1
	}
	return m.Retry.Errors
}

// logs are what a watcher has logged, as JSON.
type logs struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
}

func (l *logs) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// lines returns the lines that have a text.
func (l *logs) lines(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func newWatcher(path string, interval time.Duration) (*files.Watcher, *logs) {
	log := &logs{}
	return files.New(files.Config{Path: path, Interval: interval, Logger: slog.New(slog.NewJSONHandler(log, nil))}), log
}

// follow loads and follows a path until the test ends. It looks by itself only if the test gives an interval.
func follow(t *testing.T, path string, interval time.Duration) (*files.Watcher, *logs) {
	t.Helper()
	if interval == 0 {
		interval = time.Hour
	}
	w, log := newWatcher(path, interval)
	if err := w.Load(); err != nil {
		t.Fatal(err)
	}
	run(t, w)
	return w, log
}

func run(t *testing.T, w *files.Watcher) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// looks waits until a watcher with a short interval has looked at the files n more times.
func looks(t *testing.T, w *files.Watcher, n int) {
	t.Helper()
	for range n {
		from := time.Now()
		testkit.WaitFor(t, "a look", func() bool { return time.Since(from) > w.State().Age })
	}
}

func becomes(t *testing.T, w *files.Watcher, name string, want int) {
	t.Helper()
	testkit.WaitFor(t, fmt.Sprintf("version %d of %s", want, name), func() bool { return version(w.Table(), name) == want })
}

// rejects waits until the newest files are not in force, for a reason that has these texts, and checks that the last good ones are.
func rejects(t *testing.T, w *files.Watcher, good int, texts ...string) {
	t.Helper()
	last := ""
	testkit.WaitFor(t, strings.Join(texts, ", "), func() bool {
		last = fmt.Sprintf("%+v", w.State().Rejected)
		for _, text := range texts {
			if !strings.Contains(last, text) {
				return false
			}
		}
		return true
	})
	if got := version(w.Table(), "m"); got != good {
		t.Errorf("version %d is in force, want %d; rejected %s", got, good, last)
	}
}
