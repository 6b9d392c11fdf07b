package files

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// maxWatched is how many directories are watched. Symbolic links can lead to more; changes there are found by looking.
const maxWatched = 64

// notifier reports changes in directories, as far as the file system does. Without it, changes are found by looking.
type notifier struct {
	logger  *slog.Logger
	open    func() (*fsnotify.Watcher, error)
	watcher *fsnotify.Watcher // nil = there is none
	dirs    []string          // that are watched
	missing bool              // some directory is not watched
	logged  bool              // that it is not possible to watch
}

func (n *notifier) close() {
	if n.watcher != nil {
		_ = n.watcher.Close()
		n.watcher, n.dirs = nil, nil
	}
}

// events returns a channel that nothing is sent on if there is no watcher.
func (n *notifier) events() <-chan fsnotify.Event {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Events
}

func (n *notifier) errors() <-chan error {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Errors
}

// watch watches these directories and no others, and reports whether that is more than before. A directory that does not
// exist is left out. Directories that are watched are added again: one of them may be another directory by now.
func (n *notifier) watch(dirs []string) (more bool) {
	n.missing = true
	if n.watcher == nil {
		w, err := n.open()
		if err != nil {
			n.log(err)
			return false
		}
		n.watcher = w
	}
	for _, dir := range n.dirs {
		if !slices.Contains(dirs, dir) {
			_ = n.watcher.Remove(dir) // it may be gone
		}
	}
	var watched []string
	var failed error
	for _, dir := range dirs {
		err := n.watcher.Add(dir)
		if err == nil {
			watched = append(watched, dir)
			more = more || !slices.Contains(n.dirs, dir)
		} else if !errors.Is(err, fs.ErrNotExist) {
			failed = err
		}
	}
	n.dirs, n.missing = watched, len(watched) < len(dirs)
	if failed != nil {
		n.log(failed)
	}
	return more
}

// log logs the first time that watching is not possible.
func (n *notifier) log(err error) {
	if n.logged {
		return
	}
	n.logged = true
	args := []any{"error", err}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENOSPC) {
		args = append(args, "action", "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches")
	}
	n.logger.Warn("cannot watch files for changes; looking at them from time to time", args...)
}

// watchedDirs returns the directories in which a change can be one of the documents at path: those of the files, of what
// symbolic links lead to, and on Linux the one around a directory, which may be replaced. Elsewhere a watch opens every file.
func (l listing) watchedDirs(path string) []string {
	parent := filepath.Dir(filepath.Clean(path))
	dirs := []string{parent}
	if l.isDir() {
		dirs = []string{filepath.Clean(path)}
		if runtime.GOOS == "linux" {
			dirs = append(dirs, parent)
		}
	}
	names := []string{path}
	for _, file := range l.files {
		if file.link {
			names = append(names, file.name)
		}
	}
	for _, name := range names {
		target, err := filepath.EvalSymlinks(name)
		if err != nil {
			continue
		}
		if name != path || !l.isDir() {
			target = filepath.Dir(target)
		}
		if len(dirs) < maxWatched && !slices.Contains(dirs, target) {
			dirs = append(dirs, target)
		}
	}
	return dirs
}
