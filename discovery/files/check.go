package files

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"colonnade/fleet"
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
	c.problems = append(c.problems, checkOwners(sources, docs)...)
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

// checkOwners returns an [*Error] for each file with API keys that belongs to another user than root and the user of the process. A process that
// root runs can read such a file, and so can its owner. Commands do not check this: an operator who is root edits the files of a service.
func checkOwners(sources []source, docs []Located) (foreign []error) {
	for _, s := range sources {
		owner, known := ownerOf(s.info)
		if !known || isTrusted(owner, os.Geteuid()) || !hasKeys(docs, s.file) {
			continue
		}
		foreign = append(foreign, &Error{File: s.file, Err: fmt.Errorf("has API keys, and belongs to user %d, neither root nor the user %d of this process: chown %d %s",
			owner, os.Geteuid(), os.Geteuid(), s.file)})
	}
	return foreign
}

// isTrusted reports whether a process of user may take API keys from a file of owner.
func isTrusted(owner, user int) bool { return owner == 0 || owner == user }

// ownerOf returns the user to whom a file belongs. A file that is yet to be made has no owner.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	if info == nil {
		return 0, false
	}
	stat, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(stat.Uid), true
}

// hasKeys reports whether API keys are among the documents of a file.
func hasKeys(docs []Located, file string) bool {
	return slices.ContainsFunc(docs, func(d Located) bool {
		return d.File == file && strings.HasPrefix(d.Key, string(fleet.KindAPIKey)+"/")
	})
}

// checkMode returns an [*Error] if a file may not have API keys, since others may read it. The package comment has the rule.
func checkMode(file string, info fs.FileInfo) error {
	owner, known := ownerOf(info)
	if isPrivate(info.Mode(), known && owner == 0) {
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
