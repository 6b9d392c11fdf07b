package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// loadAttempts is how often files are read that change meanwhile.
const loadAttempts = 3

// contents are the documents of all files, as they were at one moment.
type contents struct {
	listing  listing
	docs     []Located
	problems []error // of type *Error; with any, no document may come into force
	unread   bool    // some file could not be read, so a change may be invisible to a listing
}

// readAll reads a path, and checks all that must be right before its documents come into force.
func readAll(path string) contents {
	for range loadAttempts {
		if c, ok := list(path).readContents(path); ok {
			return c
		}
	}
	return contents{unread: true, problems: []error{&Error{File: path, Err: errors.New("changes while it is read; it is read again when it is at rest")}}}
}

// readContents reads and checks the files of a listing. It reports whether the listing still holds; if not, the files that
// were read may be of different moments.
func (l listing) readContents(path string) (c contents, ok bool) {
	sources, err := l.read()
	if !l.same(list(path)) {
		return contents{}, false
	}
	return newContents(path, l, sources, err), true
}

func newContents(path string, l listing, sources []source, err error) contents {
	docs, bad := parse(sources)
	c := contents{listing: l, docs: docs, unread: err != nil, problems: append(problemsOf(err), problemsOf(bad)...)}
	if len(l.files) == 0 && l.err == nil {
		c.problems = append(c.problems, &Error{File: path, Err: errors.New("there are no documents: no file of the directory is named *.yaml, *.yml or *.json")})
	}
	for _, s := range sources {
		if len(bytes.TrimSpace(s.data)) == 0 {
			c.problems = append(c.problems, &Error{File: s.file, Err: errors.New(`is empty, as after a write that was cut off: remove it, or write a comment such as "# no documents" into it`)})
		}
	}
	return c
}

// checkMode returns an [*Error] if a file may not have API keys, since others may read it. The package comment has the rule.
func checkMode(file string, info fs.FileInfo) error {
	ofRoot := false
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		ofRoot = stat.Uid == 0
	}
	if isPrivate(info.Mode(), ofRoot) {
		return nil
	}
	return &Error{File: file, Err: fmt.Errorf("has API keys, and with the mode %04o other users may read or change it: chmod 600 %s "+
		"(in Kubernetes: defaultMode: 0400 of the volume, and fsGroup unless the process is root)", info.Mode().Perm(), file)}
}

// isPrivate reports whether only the owner of a file can read and change it. The group of one that root owns may read it.
func isPrivate(mode fs.FileMode, ofRoot bool) bool {
	if ofRoot {
		return mode.Perm()&0o027 == 0
	}
	return mode.Perm()&0o077 == 0
}
