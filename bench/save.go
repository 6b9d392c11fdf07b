package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Page is what the files of a report are called: Page.md, Page.json, and the folder Page with its plots.
const Page = "overload"

// Save writes a report into a directory: as a page, as JSON, and its plots. It returns what it has written.
func Save(r *Report, dir string) ([]string, error) {
	pictures := filepath.Join(dir, Page)
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return nil, fmt.Errorf("cannot save the report: %w", err)
	}
	var files []string
	save := func(name string, write func(*bytes.Buffer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("cannot save the report: %w", err)
		}
		files = append(files, name)
		return nil
	}
	if err := save(filepath.Join(dir, Page+".md"), func(b *bytes.Buffer) error { return WriteMarkdown(b, r, Page) }); err != nil {
		return files, err
	}
	if err := save(filepath.Join(dir, Page+".json"), func(b *bytes.Buffer) error { return WriteJSON(b, r) }); err != nil {
		return files, err
	}
	for _, s := range r.Scenarios {
		for _, p := range s.Plots {
			if !p.drawable() {
				continue
			}
			if err := save(filepath.Join(pictures, s.file(p)+".png"), func(b *bytes.Buffer) error { return WritePNG(b, p, r.Gateways) }); err != nil {
				return files, err
			}
		}
	}
	return files, nil
}

// file is what a plot's file is called, without .png: several scenarios may have plots of the same name.
func (s *ScenarioResult) file(p Plot) string {
	if strings.HasPrefix(p.Name, s.Name) {
		return p.Name
	}
	return s.Name + "-" + p.Name
}

// drawable says whether there is anything to see.
func (p *Plot) drawable() bool {
	for _, s := range p.Series {
		for _, v := range append(append([]Value{}, s.Y...), s.X...) {
			if v.Measured() {
				return true
			}
		}
	}
	return false
}
