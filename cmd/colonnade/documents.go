package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"colonnade/discovery/files"
	"colonnade/fleet/document"
)

// loadDocuments returns the valid documents of files and directories, and an error for each of the others; the file - is stdin.
func loadDocuments(stdin io.Reader, paths []string) (docs []document.Raw, failed []error) {
	fail := func(file string, err error) { failed = append(failed, fmt.Errorf("%s: %w", file, err)) }
	seen := map[string]string{} // key → file
	for _, path := range paths {
		found, errs := readDocuments(stdin, path)
		failed = append(failed, errs...)
		if len(found)+len(errs) == 0 {
			fail(nameOf(path), errors.New("there are no documents in it"))
		}
		for _, d := range found {
			err := document.Check(d.Key, d.Value)
			if err != nil {
				fail(d.File, err)
			}
			if first, ok := seen[d.Key]; ok {
				fail(d.File, fmt.Errorf("%s: duplicate key (first in %s)", d.Key, first))
			} else if seen[d.Key] = d.File; err == nil {
				docs = append(docs, d.Raw)
			}
		}
	}
	return docs, failed
}

// nameOf returns a file as errors name it.
func nameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

// readDocuments returns the documents of a file, or of the files of a directory as colonnade serve reads them, and the errors of the others.
func readDocuments(stdin io.Reader, path string) (docs []files.Located, errs []error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		docs, err = files.Read(path)
		return docs, separate(err)
	}
	found, errs := splitFile(stdin, path)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", nameOf(path), err)
	}
	for _, d := range found {
		docs = append(docs, files.Located{Raw: d, File: nameOf(path)})
	}
	return docs, errs
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
	if errors.As(err, &path) {
		err = path.Err // the caller names the file
	}
	return docs, separate(err)
}

// separate returns the errors that errors.Join has joined.
func separate(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case errors.As(err, &joined):
		return joined.Unwrap()
	case err != nil:
		return []error{err}
	}
	return nil
}
