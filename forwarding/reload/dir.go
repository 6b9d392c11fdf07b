package reload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Dir reads small files below one directory, by names that come from others. A name, or a symbolic link, that leaves the
// directory is an error, and so is anything but a regular file. Its methods may be called by several goroutines at once.
type Dir struct {
	Path    string
	Never   []string // files that are not read, under whatever name they stand below Path
	MaxSize int64    // of one file, in bytes
}

// Read returns the content of the file at name, which is relative to the directory, or begins with its path. The directory
// is opened anew, since it may have been mounted again. Read does not wait for the writer of a pipe.
func (d *Dir) Read(name string) ([]byte, error) {
	name, err := d.relative(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := d.check(file); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(file, d.MaxSize+1))
	if err == nil && int64(len(content)) > d.MaxSize { // it has grown, or its size is unknown, as in /proc
		err = d.errTooLarge()
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

// relative returns name without the path of the directory. It compares text; what a path leads to, os.Root decides.
func (d *Dir) relative(name string) (string, error) {
	if !filepath.IsAbs(name) {
		return name, nil
	}
	dir := strings.TrimSuffix(filepath.Clean(d.Path), "/") + "/"
	below, ok := strings.CutPrefix(filepath.Clean(name), dir)
	if !ok {
		return "", fmt.Errorf("it is not below %s", d.Path)
	}
	return below, nil
}

func (d *Dir) check(file *os.File) error {
	info, err := file.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() > d.MaxSize:
		return d.errTooLarge()
	}
	for _, path := range d.Never {
		other, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("cannot tell it from a file of this node: %w", err)
		case os.SameFile(info, other):
			return errors.New("it is a file of this node")
		}
	}
	return nil
}

func (d *Dir) errTooLarge() error { return fmt.Errorf("it is larger than %d bytes", d.MaxSize) }
