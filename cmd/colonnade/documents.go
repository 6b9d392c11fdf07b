package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"colonnade/fleet/document"
)

// readDocuments reads and checks every document, and says of each that is wrong where it stands.
func readDocuments(stdin io.Reader, files []string) ([]document.Raw, error) {
	docs, failed := readEach(stdin, files)
	return docs, errors.Join(failed...)
}

// readEach returns the good documents, and an error for each of the others.
func readEach(stdin io.Reader, files []string) ([]document.Raw, []error) {
	r := reader{stdin: stdin, seen: map[string]string{}}
	for _, name := range files {
		r.read(name)
	}
	return r.docs, r.failed
}

type reader struct {
	stdin  io.Reader
	seen   map[string]string // by key, the file that has it
	docs   []document.Raw
	failed []error
}

func (r *reader) read(name string) {
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
	for _, e := range eachOf(err) {
		r.failed = append(r.failed, fmt.Errorf("%s: %w", name, e))
	}
	for _, d := range docs {
		bad := document.Check(d.Key, d.Value)
		if bad != nil {
			r.failed = append(r.failed, fmt.Errorf("%s: %w", name, bad))
		}
		if first, twice := r.seen[d.Key]; twice {
			r.failed = append(r.failed, fmt.Errorf("%s: %s: the key is given twice (first in %s)", name, d.Key, first))
			continue
		}
		r.seen[d.Key] = name
		if bad == nil {
			r.docs = append(r.docs, d)
		}
	}
}

func (r *reader) data(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(r.stdin)
	}
	return os.ReadFile(name)
}

// eachOf takes apart what errors.Join has put together.
func eachOf(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}
