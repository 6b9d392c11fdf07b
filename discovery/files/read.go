package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"colonnade/fleet"
	"colonnade/fleet/document"
)

// maxTotal bounds the bytes of all files of a directory together.
const maxTotal = 4 * document.MaxFile

// Located is a document, and where it stands.
type Located struct {
	document.Raw
	File string // the path of the file, or of the directory with the name of the file
	Line int    // the first line of its text, counted from 1
}

// Error says why a file, or a document in a file, is not accepted.
type Error struct {
	File string
	Line int   // counted from 1; 0 = the file as a whole
	Err  error // a *document.InvalidError if a document is at fault
}

// Error returns "FILE:LINE: reason", or "FILE: reason".
func (e *Error) Error() string { return e.place() + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func (e *Error) place() string {
	if e.Line == 0 {
		return e.File
	}
	return fmt.Sprintf("%s:%d", e.File, e.Line)
}

// fileError returns err without the path, which [Error] names.
func fileError(file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &Error{File: file, Err: err}
}

// Read returns the documents of a file, or of all files of a directory, in the order of the names of the files. For
// documents and files that are not accepted, the error, of errors.Join, has an [*Error] each; the others are returned. After a thousand
// of them, the rest is left out, and the last error says so. An empty file, and a directory without files, are no error: [Watcher.Load] refuses them.
func Read(path string) ([]Located, error) {
	sources, err := readSources(path)
	docs, bad := parse(sources)
	return docs, errors.Join(append(problemsOf(err), problemsOf(bad)...)...)
}

// problemsOf returns the errors that were joined to err.
func problemsOf(err error) []error {
	switch joined := err.(type) { //nolint:errorlint // the functions of this package wrap none
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		return joined.Unwrap()
	}
	return []error{err}
}

// source is a file that was read.
type source struct {
	file string // the path, or the path and the name in the directory
	data []byte
	info fs.FileInfo // of the file that a symbolic link leads to; nil = there is none yet
}

// readSources reads the files at a path. For files that cannot be read, the error, of errors.Join, has an [*Error] each; the
// others are returned.
func readSources(path string) ([]source, error) { return list(path).read() }

func (l listing) read() ([]source, error) {
	if l.err != nil {
		return nil, l.err
	}
	var sources []source
	var failed []error
	total := 0
	for _, file := range l.files {
		s, err := file.read()
		if total += len(s.data); err == nil && total > maxTotal {
			err = &Error{File: file.name, Err: fmt.Errorf("the files up to this one have more than %d bytes together: split the documents, or remove some", maxTotal)}
			s.data = nil
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		sources = append(sources, s)
	}
	return sources, errors.Join(failed...)
}

// read reads a file. Nothing else is opened: a named pipe would block, and a device may do anything.
func (f listedFile) read() (source, error) {
	if f.err != nil {
		return source{}, f.err
	}
	if err := checkRegular(f.name, f.info); err != nil {
		return source{}, err
	}
	file, err := os.OpenFile(f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that has taken the name since must not block
	if err != nil {
		return source{}, fileError(f.name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return source{}, fileError(f.name, err)
	}
	if err := checkRegular(f.name, info); err != nil {
		return source{}, err
	}
	data, err := io.ReadAll(io.LimitReader(file, document.MaxFile+1))
	if err == nil && len(data) > document.MaxFile {
		err = errTooLarge(info.Size())
	}
	if err != nil {
		return source{}, fileError(f.name, err)
	}
	return source{file: f.name, data: data, info: info}, nil
}

func errTooLarge(size int64) error {
	return fmt.Errorf("has %d bytes; at most %d are accepted: split it", size, document.MaxFile)
}

func checkRegular(name string, info fs.FileInfo) error {
	what := "no file"
	switch mode := info.Mode(); {
	case mode.IsRegular() && info.Size() > document.MaxFile:
		return &Error{File: name, Err: errTooLarge(info.Size())}
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		what = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return &Error{File: name, Err: fmt.Errorf("is %s; documents are read from regular files only: remove it, or give it another name", what)}
}

// parse returns the documents in sources that are acceptable. For the others, and for files with API keys that others may read,
// the error, of errors.Join, has an [*Error] each, in their order.
func parse(sources []source) ([]Located, error) {
	p := parser{first: map[string]Located{}}
	for _, s := range sources {
		parts, err := document.SplitParts(s.data)
		if err != nil {
			p.problems = append(p.problems, fileError(s.file, err))
		}
		before := len(p.docs)
		for _, part := range parts {
			if len(p.problems) >= maxProblems {
				return p.docs, errors.Join(append(p.problems, errNotChecked(s, part))...)
			}
			p.add(s, part)
		}
		p.checkMode(s, p.docs[before:])
	}
	return p.docs, errors.Join(p.problems...)
}

// maxProblems bounds how many documents are refused one by one: a large file of something else would keep the process busy for minutes.
const maxProblems = 1000

func errNotChecked(s source, next document.Part) error {
	return &Error{File: s.file, Line: next.Line, Err: fmt.Errorf("documents from here on are not checked: %d problems come before them", maxProblems)}
}

// parser collects what stands in several files.
type parser struct {
	docs     []Located
	problems []error
	first    map[string]Located // by key
}

// checkMode checks the mode of a file if API keys are among its documents. A file that is yet to be made has no mode.
func (p *parser) checkMode(s source, docs []Located) {
	if s.info == nil || !hasKeys(docs, s.file) {
		return
	}
	if err := checkMode(s.file, s.info); err != nil {
		p.problems = append(p.problems, err)
	}
}

func (p *parser) add(s source, part document.Part) {
	if part.Key == "" && part.Err == nil {
		return // only comments
	}
	doc := Located{Raw: part.Raw, File: s.file, Line: part.Line}
	err := part.Err
	if err == nil {
		err = p.check(doc)
	}
	if err != nil {
		p.problems = append(p.problems, &Error{File: s.file, Line: s.lineOf(part, err), Err: withoutLine(err)})
		return
	}
	p.docs = append(p.docs, doc)
}

func (p *parser) check(doc Located) error {
	if first, double := p.first[doc.Key]; double {
		return &document.InvalidError{Key: doc.Key,
			Reason: fmt.Sprintf("the key is given twice, here and at %s:%d: remove one of the two documents", first.File, first.Line)}
	}
	p.first[doc.Key] = doc
	kind, _, _ := strings.Cut(doc.Key, "/")
	switch kind := fleet.Kind(kind); {
	case kind.OfNode():
		return &document.InvalidError{Key: doc.Key, Reason: "a node registers itself: remove this document"}
	case kind == fleet.KindDeletions:
		return &document.InvalidError{Key: doc.Key, Reason: "deletions in files need no confirmation: remove this document"}
	}
	return document.Check(doc.Key, doc.Value)
}

// lineOf returns the line of a file to which an error about one of its documents belongs.
func (s source) lineOf(part document.Part, err error) int {
	first := 1 + bytes.Count(s.data[:part.Begin], []byte("\n"))
	var invalid *document.InvalidError
	if !errors.As(err, &invalid) {
		return part.Line
	}
	line := invalid.Line
	if line == 0 {
		line = document.FieldLine(s.data[part.Begin:part.End], invalid.Field)
	}
	if line == 0 {
		return part.Line
	}
	return first + line - 1
}

// withoutLine removes the line within the document from an error: the line of the file takes its place.
func withoutLine(err error) error {
	var invalid *document.InvalidError
	if !errors.As(err, &invalid) || invalid.Line == 0 {
		return err
	}
	out := *invalid
	out.Reason = strings.TrimSuffix(out.Reason, fmt.Sprintf(" (line %d)", out.Line))
	return &out
}
