package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"colonnade/fleet/document"
)

// loadDocuments returns the valid documents of files, and an error for each of the others; the file - is stdin.
func loadDocuments(stdin io.Reader, files []string) (docs []document.Raw, failed []error) {
	fail := func(file string, err error) { failed = append(failed, fmt.Errorf("%s: %w", file, err)) }
	seen := map[string]string{} // key → file
	for _, file := range files {
		found, errs := splitFile(stdin, file)
		if file == "-" {
			file = "standard input"
		}
		if len(found)+len(errs) == 0 {
			fail(file, errors.New("there are no documents in it"))
		}
		for _, err := range errs {
			fail(file, err)
		}
		for _, d := range found {
			err := document.Check(d.Key, d.Value)
			if err != nil {
				fail(file, err)
			}
			if first, ok := seen[d.Key]; ok {
				fail(file, fmt.Errorf("%s: duplicate key (first in %s)", d.Key, first))
			} else if seen[d.Key] = file; err == nil {
				docs = append(docs, d)
			}
		}
	}
	return docs, failed
}

// splitFile returns the documents of a file, and an error for each part that is none.
func splitFile(stdin io.Reader, file string) (docs []document.Raw, errs []error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err == nil {
		docs, err = document.SplitFile(data)
	}
	var path *os.PathError
	var joined interface{ Unwrap() []error }
	switch {
	case errors.As(err, &path):
		errs = []error{path.Err} // the caller names the file
	case errors.As(err, &joined):
		errs = joined.Unwrap()
	case err != nil:
		errs = []error{err}
	}
	return docs, errs
}
