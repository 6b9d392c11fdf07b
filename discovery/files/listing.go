package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxFiles is how many files with documents a directory may have.
const maxFiles = 10_000

// listing is what stands at a path, as the file system describes it: one file, or the files of a directory whose names are
// those of documents, sorted by name. Two listings are compared to find out whether anything has changed.
type listing struct {
	root  fs.FileInfo // nil with err
	files []listedFile
	err   error // why the path cannot be listed
}

// listedFile is a file, or what a symbolic link leads to.
type listedFile struct {
	name string      // the path, or the path and the name in the directory
	link bool        // of a directory: the name is a symbolic link
	info fs.FileInfo // nil with err
	err  error
}

func list(path string) listing {
	info, err := os.Stat(path)
	if err != nil {
		return listing{err: fileError(path, err)}
	}
	if !info.IsDir() {
		return listing{root: info, files: []listedFile{{name: path, info: info}}}
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return listing{err: fileError(path, err)}
	}
	l := listing{root: info}
	for _, entry := range entries {
		if !isDocumentName(entry.Name()) {
			continue
		}
		if len(l.files) == maxFiles {
			return listing{err: &Error{File: path, Err: fmt.Errorf("has more than %d files of documents: put several documents into one file", maxFiles)}}
		}
		file := listedFile{name: filepath.Join(path, entry.Name()), link: entry.Type()&fs.ModeSymlink != 0}
		if file.info, err = os.Stat(file.name); err != nil {
			file.err = fileError(file.name, err)
		} else if file.info.IsDir() {
			continue
		}
		l.files = append(l.files, file)
	}
	return l
}

// isDocumentName reports whether a file of a directory has documents. Names that begin with a dot belong to editors, to
// Kubernetes and to unfinished copies.
func isDocumentName(name string) bool {
	extension := strings.ToLower(filepath.Ext(name))
	return !strings.HasPrefix(name, ".") && (extension == ".yaml" || extension == ".yml" || extension == ".json")
}

func (l listing) isDir() bool { return l.root != nil && l.root.IsDir() }

// same reports whether nothing has changed, as far as the file system says.
func (l listing) same(other listing) bool {
	if l.root == nil || other.root == nil {
		return l.root == nil && other.root == nil && sameText(l.err, other.err)
	}
	return os.SameFile(l.root, other.root) && slices.EqualFunc(l.files, other.files, listedFile.same)
}

func (f listedFile) same(other listedFile) bool {
	if f.name != other.name || f.info == nil || other.info == nil {
		return f.name == other.name && f.info == nil && other.info == nil && sameText(f.err, other.err)
	}
	return os.SameFile(f.info, other.info) && f.info.Size() == other.info.Size() &&
		f.info.ModTime().Equal(other.info.ModTime()) && f.info.Mode() == other.info.Mode()
}

func sameText(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// newest returns when the file that was changed last was changed.
func (l listing) newest() time.Time {
	var newest time.Time
	for _, file := range l.files {
		if file.info != nil && file.info.ModTime().After(newest) {
			newest = file.info.ModTime()
		}
	}
	return newest
}
