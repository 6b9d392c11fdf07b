package files_test

import (
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// noEvents returns a notifier whose events go nowhere, like that of a network file system.
func noEvents() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		w.Events, w.Errors = nil, nil
	}
	return w, err
}

// Where files cannot be watched, such as beyond the limits of inotify, the watcher looks at them, and says so once.
func TestLimitsOfInotify(t *testing.T) {
	const interval = 5 * time.Millisecond
	f := func(name string, open func() (*fsnotify.Watcher, error), texts ...string) {
		t.Run(name, func(t *testing.T) {
			dir := start(t, "a.yaml", model("m", 1))
			w, log := newWatcher(dir.path, interval)
			began := time.Now()
			var opened atomic.Int64
			w.OpenNotifierBy(func() (*fsnotify.Watcher, error) {
				opened.Add(1)
				return open()
			})
			dir.check(w.Load())
			run(t, w)
			dir.write("a.yaml", model("m", 2))
			becomes(t, w, "m", 2)
			looks(t, w, 5)
			if n := opened.Load(); n > 10+int64(time.Since(began)/interval) {
				t.Errorf("tried %d times in %v", n, time.Since(began))
			}
			lines := log.lines("cannot watch")
			if len(lines) != 1 {
				t.Fatalf("log: %q", lines)
			}
			for _, text := range texts {
				if !strings.Contains(lines[0], text) {
					t.Errorf("log: %q, want %q", lines, text)
				}
			}
		})
	}
	t.Parallel()
	f("instances", func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }, "too many open files", "max_user_instances")
	f("watches", func() (*fsnotify.Watcher, error) { // which refuses each directory, and ends
		w, err := fsnotify.NewWatcher()
		if err == nil {
			err = w.Close()
		}
		return w, err
	}, "closed")
}
