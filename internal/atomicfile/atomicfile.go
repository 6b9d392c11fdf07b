// Package atomicfile replaces files so that neither a reader nor a crash of the process or of the machine leaves a part
// of one: the content goes into a temporary file beside it, is flushed to the disk, and takes the file's name in one step,
// which is flushed as well.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tempSuffix is fixed, so that a crash leaves at most one temporary file behind, which the next Write takes over.
const tempSuffix = ".tmp"

// Write replaces the file at path. When it returns nil, the content is on the disk; with an error, the file is as it was
// or has the new content. Of several calls for one path, only one may run at a time.
func Write(path string, content []byte, mode fs.FileMode) error {
	temp := path + tempSuffix
	if err := writeTemp(temp, content, mode); err != nil {
		_ = os.Remove(temp)
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp)
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func writeTemp(temp string, content []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// SyncDir flushes the names in a directory. Some file systems cannot do that, and say EINVAL: the rename is as durable
// there as they make it.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	if err = dir.Sync(); errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}
