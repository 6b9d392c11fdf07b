package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"colonnade/internal/ctxtime"
)

// lockInterval is the time between two attempts to take a lock.
const lockInterval = 5 * time.Millisecond

// directories returns the directories of a path and of its files, after symbolic links, sorted.
func directories(path string, sources []source) ([]string, error) {
	dirs := map[string]bool{}
	for _, file := range append([]source{{file: path}}, sources...) {
		target, err := filepath.EvalSymlinks(file.file)
		if err != nil {
			return nil, fmt.Errorf("cannot find the target of %s: %w", file.file, err)
		}
		if info, err := os.Stat(target); err != nil || !info.IsDir() {
			target = filepath.Dir(target)
		}
		dirs[target] = true
	}
	return slices.Sorted(maps.Keys(dirs)), nil
}

// lock locks directories against other Edits, of any process, until unlock is called or the process ends. All Edits take their locks in
// one order. ctx bounds the wait.
func lock(ctx context.Context, dirs []string) (unlock func(), err error) {
	var locked []*os.File
	unlock = func() {
		for _, dir := range locked {
			_ = dir.Close() // the lock goes with it
		}
	}
	for _, name := range dirs {
		dir, err := os.Open(name)
		if err == nil {
			err = lockDirectory(ctx, dir, locked)
			locked = append(locked, dir)
		}
		if err != nil {
			unlock()
			return nil, fmt.Errorf("cannot lock the directory %s: %w", name, err)
		}
	}
	return unlock, nil
}

// lockDirectory locks one directory, unless it is among those that are locked: two paths may lead to one directory.
func lockDirectory(ctx context.Context, dir *os.File, locked []*os.File) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	for _, other := range locked {
		if known, err := other.Stat(); err == nil && os.SameFile(info, known) {
			return nil
		}
	}
	for {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			return err
		case !ctxtime.Sleep(ctx, lockInterval):
			return fmt.Errorf("another program is changing files there: %w", ctx.Err())
		}
	}
}
