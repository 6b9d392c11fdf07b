package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"colonnade/fleet/document"
)

// loadDocuments reads and checks the documents of files. The error has a line for each invalid one, with its file.
func loadDocuments(stdin io.Reader, files []string) ([]document.Raw, error) {
	docs, failed := readFiles(stdin, files)
	return docs, errors.Join(failed...)
}

// readFiles returns the valid documents of files, and an error for each of the others; the file - is stdin.
func readFiles(stdin io.Reader, files []string) ([]document.Raw, []error) {
	r := fileReader{stdin: stdin, seen: map[string]string{}}
	for _, name := range files {
		r.read(name)
	}
	return r.docs, r.failed
}

type fileReader struct {
	stdin  io.Reader
	seen   map[string]string // key → file
	docs   []document.Raw
	failed []error
}

func (r *fileReader) read(name string) {
	data, err := r.data(name)
	if err != nil {
		r.failed = append(r.failed, err) // it names the file
		return
	}
	if name == "-" {
		name = "standard input"
	}
	docs, err := document.SplitFile(data)
	if err == nil && len(docs) == 0 {
		r.failed = append(r.failed, fmt.Errorf("no documents in %s", name))
	}
	for _, e := range split(err) {
		r.failed = append(r.failed, fmt.Errorf("%s: %w", name, e))
	}
	for _, d := range docs {
		invalid := document.Check(d.Key, d.Value)
		if invalid != nil {
			r.failed = append(r.failed, fmt.Errorf("%s: %w", name, invalid))
		}
		if first, twice := r.seen[d.Key]; twice {
			r.failed = append(r.failed, fmt.Errorf("%s: %s: duplicate key (first in %s)", name, d.Key, first))
			continue
		}
		r.seen[d.Key] = name
		if invalid == nil {
			r.docs = append(r.docs, d)
		}
	}
}

func (r *fileReader) data(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(r.stdin)
	}
	return os.ReadFile(name)
}

// split returns the errors that errors.Join has joined.
func split(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
