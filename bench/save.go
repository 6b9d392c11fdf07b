package bench

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The names of a report's files: NAME.md, NAME.json, and the folder NAME with its charts.
const (
	overloadPage    = "overload"
	performancePage = "performance"
)

// page is the name of the report's files.
func (r *Report) page() string { return cmp.Or(r.Page, overloadPage) }

// Save writes a report into a directory, as a page, as JSON, and its charts, and returns the names of the files.
func Save(r *Report, dir string) (files []string, err error) {
	page := r.page()
	if err := os.MkdirAll(filepath.Join(dir, page), 0o755); err != nil {
		return nil, fmt.Errorf("cannot save the report: %w", err)
	}
	save := func(name string, write func(io.Writer) error) {
		if err != nil {
			return
		}
		name = filepath.Join(dir, name)
		if err = WriteFile(name, write); err == nil {
			files = append(files, name)
		}
	}
	save(page+".md", func(w io.Writer) error { return writeMarkdown(w, r, page) })
	save(page+".json", func(w io.Writer) error { return WriteJSON(w, r) })
	for _, s := range r.Scenarios {
		for _, c := range s.Charts {
			if c.drawable() {
				save(filepath.Join(page, s.file(&c)), func(w io.Writer) error { return c.writePNG(w, r.Gateways) })
			}
		}
	}
	return files, err
}

// WriteFile creates a file, or truncates it.
func WriteFile(name string, write func(io.Writer) error) (err error) {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("cannot save the report: %w", err)
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	return write(file)
}
