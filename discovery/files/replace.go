package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"colonnade/internal/atomicfile"
)

// tempSuffix is fixed, so that a crash leaves at most one temporary file behind, which the next Edit removes. Temporary files have dot names,
// which no Watcher reads.
const tempSuffix = ".colonnade-tmp"

// replacement is a new text for a file.
type replacement struct {
	file string      // as it was listed
	old  fs.FileInfo // nil = the file is new
	text []byte

	target, temp string // after symbolic links; set by stage
}

// replace writes new texts of files into temporary files, and then, unless changed returns an error, gives them the names. The
// directories are those that are locked.
func replace(all []replacement, dirs []string, changed func() error) error {
	defer func() {
		for i := range all {
			all[i].discard()
		}
	}()
	for i := range all {
		if err := all[i].stage(dirs); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	if err := changed(); err != nil {
		return err
	}
	var done []string
	for _, r := range all {
		err := os.Rename(r.temp, r.target)
		if err == nil {
			done = append(done, r.file)
			err = atomicfile.SyncDir(filepath.Dir(r.target))
		}
		if err != nil && len(done) == 0 {
			return fmt.Errorf("nothing was changed: cannot replace %s: %w", r.file, err)
		}
		if err != nil {
			return fmt.Errorf("only %s changed: cannot replace %s: %w", strings.Join(done, ", "), r.file, err)
		}
	}
	return nil
}

// stage writes the text into a temporary file beside the target, with the mode and the owner of the old file.
func (r *replacement) stage(dirs []string) error {
	var err error
	if r.target, err = r.findTarget(); err != nil {
		return err
	}
	dir, name := filepath.Split(r.target)
	if !slices.Contains(dirs, filepath.Clean(dir)) {
		return errChangedMeanwhile // a symbolic link leads to another directory now, which is not locked
	}
	temp := filepath.Join(dir, "."+name+tempSuffix)
	_ = os.Remove(temp) // of an Edit that has crashed: the directory is locked
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return r.explain(err)
	}
	r.temp = temp
	if _, err = file.Write(r.text); err == nil {
		err = r.keepOwner(file)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("cannot write %s: %w", r.file, err)
	}
	return nil
}

// findTarget follows symbolic links.
func (r *replacement) findTarget() (string, error) {
	if r.old != nil {
		target, err := filepath.EvalSymlinks(r.file)
		if err != nil {
			return "", errChangedMeanwhile
		}
		return target, nil
	}
	if _, err := os.Lstat(r.file); err == nil {
		return "", fmt.Errorf("%s is there, but is no file that can be read", r.file)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(r.file))
	return filepath.Join(dir, filepath.Base(r.file)), err
}

// keepOwner gives a file the owner, the group and the mode of the old one. A new one that root makes gets the owner and group of the
// directory, and that group may read it if root owns it and the group may read the directory: the process that reads the file may run as
// another user.
func (r *replacement) keepOwner(file *os.File) error {
	like, mode := r.old, fs.FileMode(0o600)
	if like != nil {
		mode = like.Mode().Perm()
	} else if os.Geteuid() == 0 {
		var err error
		if like, err = os.Stat(filepath.Dir(r.target)); err != nil {
			return err
		}
		if owner, ok := like.Sys().(*syscall.Stat_t); ok && owner.Uid == 0 && owner.Gid != 0 {
			mode |= like.Mode().Perm() & 0o040
		}
	}
	if like != nil {
		if err := chownLike(file, like); err != nil {
			return err
		}
	}
	return file.Chmod(mode)
}

// chownLike gives a file the owner and the group of another one.
func chownLike(file *os.File, like fs.FileInfo) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	want, known := like.Sys().(*syscall.Stat_t)
	got, ours := info.Sys().(*syscall.Stat_t)
	if !known || !ours || want.Uid == got.Uid && want.Gid == got.Gid {
		return nil
	}
	if err := file.Chown(int(want.Uid), int(want.Gid)); err != nil {
		return fmt.Errorf("it belongs to user %d and group %d, which a new file cannot keep; run this as that user, or as root: %w", want.Uid, want.Gid, err)
	}
	return nil
}

// explain says what to do about a directory in which no file can be made.
func (r *replacement) explain(err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("cannot write %s: %w", r.file, err)
	}
	return fmt.Errorf("cannot write %s: the directory %s cannot be written (%w), and a file is replaced by a new one; run this as its owner, or change the "+
		"documents where they come from, such as the ConfigMap of a pod", r.file, filepath.Dir(r.target), errors.Unwrap(err))
}

// discard removes the temporary file if it has not taken the name of the target.
func (r *replacement) discard() {
	if r.temp != "" {
		_ = os.Remove(r.temp)
	}
}
